"""The parameters of every strategy of the study, and the emulator of an emulated run: none is stored yet."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput

revision = "0003"
down_revision = "0002"

VALUES = {
    "subscription": ("variable", "ours"),
    "tunables": ("default", "custom"),
    "design": ("wb_etl", "wb_ctl", "wt"),
    "manager": ("suicide", "delay", "backoff", "aggressive", "timestamp"),
    "instrumentation": ("all", "shared"),
    "method": ("gl_wt", "ml_wt", "serialirr", "serialirr_onwrite", "serial", "htm"),
    "kernel": ("plain", "eigen"),
    "optimisation": ("O0", "O3"),
}
COLUMNS = ("profile", "library", *VALUES)


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_spec_{name}"))


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(map(repr, values))})"


def upgrade() -> None:
    _let_provider_be("rtm", "power", "emulated")
    # Each CHECK belongs to one column, so SQLite can add the column without rebuilding a table that others refer to.
    op.add_column(
        "spec",
        sa.Column(
            "profile",
            sa.Text(),
            _check("profile_of_emulated", "(profile IS NULL) = (provider IS NULL OR provider <> 'emulated')"),
        ),
    )
    op.add_column("spec", sa.Column("library", sa.Text(), _check("library_not_empty", "library <> ''")))
    for name, values in VALUES.items():
        op.add_column("spec", sa.Column(name, sa.Text(), _check(f"{name}_valid", _one_of(name, values))))
    # No run has a backend before this revision, and an empty table accepts a new column that must have a value.
    op.add_column("backend", sa.Column("config_json", sa.Text(), nullable=False))


def downgrade() -> None:
    spec = sa.table("spec", *(sa.column(name) for name in COLUMNS))
    backend = sa.table("backend")
    _refuse_if_any(spec, sa.or_(*(spec.c[name].is_not(None) for name in COLUMNS)))
    _refuse_if_any(backend, sa.true())
    op.drop_column("backend", "config_json")
    for name in COLUMNS:
        op.drop_column("spec", name)
    _let_provider_be("rtm", "power")


def _refuse_if_any(table: sa.TableClause, condition: sa.ColumnElement[bool]) -> None:
    if op.get_bind().execute(sa.select(sa.func.count()).select_from(table).where(condition)).scalar_one():
        raise BadInput("revision 0002 cannot hold the parameters of strategies, or the emulators, of this database.")


def _let_provider_be(*values: str) -> None:
    """Change the CHECK of a column; SQLite needs a new column with the new CHECK, and the values are copied."""
    valid = _one_of("provider", values)
    if op.get_context().dialect.name != "sqlite":
        op.drop_constraint(op.f("ck_spec_provider_valid"), "spec")
        op.create_check_constraint(op.f("ck_spec_provider_valid"), "spec", valid)
        return
    op.execute("ALTER TABLE spec RENAME COLUMN provider TO old_provider")
    op.add_column("spec", sa.Column("provider", sa.Text(), _check("provider_valid", valid)))
    op.execute("UPDATE spec SET provider = old_provider")
    op.drop_column("spec", "old_provider")
