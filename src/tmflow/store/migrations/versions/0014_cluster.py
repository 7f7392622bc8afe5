"""The processes of a cluster, and the phases of its workers' steps, get tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.models.base import Count, Real

revision = "0014"
down_revision = "0013"

TABLES = {"process": "processes", "phase": "phases of steps"}
ROLES = "'server', 'worker'"
PHASES = "'receive', 'compute', 'send', 'queue', 'apply', 'other'"
STRICT = {"sqlite_strict": True, "sqlite_with_rowid": False}


def upgrade() -> None:
    op.create_table(
        "process",
        sa.Column("run_id", Count(), nullable=False),
        sa.Column("role", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("index", Count(), autoincrement=False, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("steps", Count()),
        sa.Column("loop_s", Real()),
        sa.Column("cpu_s", Real()),
        sa.Column("exit", Count()),
        _check("process", "role_valid", f"role IN ({ROLES})"),
        _check("process", "index_not_negative", '"index" >= 0'),
        *(_check("process", f"{name}_not_negative", f"{name} >= 0") for name in ("steps", "loop_s", "cpu_s")),
        _check("process", "exit_range", "exit BETWEEN -64 AND 255"),
        *_keys("process", "role", "index"),
        **STRICT,
    )
    op.create_table(
        "phase",
        sa.Column("run_id", Count(), nullable=False),
        sa.Column("worker", Count(), autoincrement=False, nullable=False),
        sa.Column("phase", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("samples", Count(), nullable=False),
        sa.Column("seconds", Real(), nullable=False),
        _check("phase", "phase_valid", f"phase IN ({PHASES})"),
        _check("phase", "samples_positive", "samples > 0"),
        *(_check("phase", f"{name}_not_negative", f"{name} >= 0") for name in ("worker", "seconds")),
        *_keys("phase", "worker", "phase"),
        **STRICT,
    )


def downgrade() -> None:
    for table, what in TABLES.items():
        if op.get_bind().execute(sa.select(sa.func.count()).select_from(sa.table(table))).scalar_one():
            raise BadInput(f"revision 0013 cannot hold the {what} of clusters that are here.")
    for table in TABLES:
        op.drop_table(table)


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))


def _keys(table: str, *columns: str) -> list[Any]:
    return [
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f(f"fk_{table}_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", *columns, name=op.f(f"pk_{table}")),
    ]
