"""Factors beyond the study (another driver and model, reads, layouts, blocks), and the results of full measures.

All earlier runs used the session driver, with plain reads, separate variables and the usual measures.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.migrations import rebuild
from tmflow.store.models.base import Count, Real

revision = "0004"
down_revision = "0003"

OF_THE_SESSION: dict[str, str] = {
    "variables": "TEXT",
    "intra_op_threads": "INTEGER",
    "inter_op_threads": "INTEGER",
    "step_call": "TEXT",
}
AS_BEFORE = {"reading": "plain", "layout": "separate", "measures": "usual"}
VALUES = {
    "activation": ("sigmoid", "relu"),
    "reading": ("plain", "consistent"),
    "layout": ("separate", "joined"),
    "measures": ("usual", "full"),
    "promise": ("block", "tensor"),
}
KERNELS = ("plain", "eigen")
LOCK_TIMES = ("lock_waited_s", "lock_held_s")
WITHOUT_ROWID = {"sqlite_strict": True, "sqlite_with_rowid": False}


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(map(repr, values))})"


def upgrade() -> None:
    _change_spec(nullable=True, kernels=(*KERNELS, "fused"))
    # Each CHECK belongs to one column, so SQLite can add the column without rebuilding a table that others refer to.
    for name, high in (("hidden", 10_000), ("block", 1_000_000_000)):
        of_range = _check("spec", f"{name}_range", f"{name} BETWEEN 1 AND {high}")
        op.add_column("spec", sa.Column(name, Count(), of_range))
    for name, values in VALUES.items():
        before = AS_BEFORE.get(name)
        valid = _check("spec", f"{name}_valid", _one_of(name, values))
        op.add_column("spec", sa.Column(name, sa.Text(), valid, server_default=before, nullable=before is None))
    for name in LOCK_TIMES:
        at_least_0 = _check("counters", f"{name}_not_negative", f"{name} >= 0")
        op.add_column("counters", sa.Column(name, Real(), at_least_0))
    op.create_table(
        "retries",
        *_key("retries", worker=Count(), variable=sa.Text(), retries=Count()),
        sa.Column("sections", Count(), nullable=False),
        _check("retries", "worker_not_negative", "worker >= 0"),
        _check("retries", "sections_not_negative", "sections >= 0"),
        _check("retries", "retries_range", "retries BETWEEN 0 AND 63"),
        **WITHOUT_ROWID,
    )
    op.create_table(
        "variable_read",
        *_key("variable_read", worker=Count(), variable=sa.Text()),
        sa.Column("reads", Count(), nullable=False),
        sa.Column("torn", Count(), nullable=False),
        _check("variable_read", "worker_not_negative", "worker >= 0"),
        _check("variable_read", "torn_not_negative", "torn >= 0"),
        _check("variable_read", "torn_are_reads", "torn <= reads"),
        **WITHOUT_ROWID,
    )
    op.create_table(
        "lost_update",
        *_key("lost_update", variable=sa.Text()),
        sa.Column("expected", Count(), nullable=False),
        sa.Column("lost", Count(), nullable=False),
        _check("lost_update", "lost_not_negative", "lost >= 0"),
        _check("lost_update", "lost_were_made", "lost <= expected"),
        **WITHOUT_ROWID,
    )
    op.create_table("fused_update", *_key("fused_update", variable=sa.Text()), **WITHOUT_ROWID)


def _key(table: str, **columns: sa.types.TypeEngine[Any]) -> list[sa.schema.SchemaItem]:
    """The columns of the primary key of a detail of a run, and the constraints of the key."""
    return [
        sa.Column("run_id", Count(), nullable=False),
        *(sa.Column(name, type_, autoincrement=False, nullable=False) for name, type_ in columns.items()),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f(f"fk_{table}_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", *columns, name=op.f(f"pk_{table}")),
    ]


def downgrade() -> None:
    _refuse_what_is_later()
    for table in ("fused_update", "lost_update", "variable_read", "retries"):
        op.drop_table(table)
    for name in LOCK_TIMES:
        op.drop_column("counters", name)
    for name in ("hidden", "block", *VALUES):
        op.drop_column("spec", name)
    _change_spec(nullable=False, kernels=KERNELS)


def _refuse_what_is_later() -> None:
    spec = sa.table("spec", *map(sa.column, ("driver", "model", "kernel", "hidden", "block", *VALUES)))
    counters = sa.table("counters", *map(sa.column, LOCK_TIMES))
    column = spec.c
    later = [column.driver != "session", column.model == "mnist_mlp", column.kernel == "fused"]
    later += [column[name].is_not(None) for name in ("hidden", "block", "activation", "promise")]
    later += [column[name] != before for name, before in AS_BEFORE.items()]
    _refuse_if_any(spec, sa.or_(*later))
    _refuse_if_any(counters, sa.or_(*(counters.c[name].is_not(None) for name in LOCK_TIMES)))
    for table in ("fused_update", "lost_update", "variable_read", "retries"):
        _refuse_if_any(sa.table(table), sa.true())


def _refuse_if_any(table: sa.TableClause, condition: sa.ColumnElement[bool]) -> None:
    if op.get_bind().execute(sa.select(sa.func.count()).select_from(table).where(condition)).scalar_one():
        raise BadInput("revision 0003 cannot hold the factors beyond the study, or the full measures, that are here.")


def _change_spec(*, nullable: bool, kernels: tuple[str, ...]) -> None:
    """Allow or forbid NULL in the session's factors (only with another driver), and change the CHECK of kernels."""
    of_session = {name: f"({name} IS NULL) = (driver <> 'session')" for name in OF_THE_SESSION}
    if op.get_context().dialect.name == "sqlite":
        _rebuild_spec(nullable, kernels, of_session)
        return
    for name, condition in of_session.items():
        op.alter_column("spec", name, nullable=nullable)
        if nullable:
            op.create_check_constraint(op.f(f"ck_spec_{name}_of_session"), "spec", condition)
        else:
            op.drop_constraint(op.f(f"ck_spec_{name}_of_session"), "spec")
    op.drop_constraint(op.f("ck_spec_kernel_valid"), "spec")
    op.create_check_constraint(op.f("ck_spec_kernel_valid"), "spec", _one_of("kernel", kernels))


def _rebuild_spec(nullable: bool, kernels: tuple[str, ...], of_session: dict[str, str]) -> None:
    changes = []
    for name, type_ in OF_THE_SESSION.items():
        strict, loose = f"{name} {type_} NOT NULL", f"{name} {type_}"
        check = f" CONSTRAINT ck_spec_{name}_of_session CHECK ({of_session[name]})"
        changes.append((strict, loose + check) if nullable else (loose + check, strict))
    fewer, more = (_one_of("kernel", values) for values in (KERNELS, (*KERNELS, "fused")))
    changes.append((fewer, more) if "fused" in kernels else (more, fewer))
    rebuild("spec", changes)
