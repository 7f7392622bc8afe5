"""A run has the number of its repeat: a round may run a point several times. All earlier runs are the first.

SQLite recreates the table of runs for the new constraint. Dropping it deletes the details of all runs, so these are set
aside meanwhile.
"""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.migrations import rebuild
from tmflow.store.models.base import Count

revision = "0013"
down_revision = "0012"

BEFORE = ("uq_run_round_id_spec_id", ["round_id", "spec_id"])
AFTER = ("uq_run_round_id_spec_id_repeat", ["round_id", "spec_id", "repeat"])
Unique = tuple[str, list[str]]


def upgrade() -> None:
    of_column = sa.CheckConstraint("repeat > 0", name=op.f("ck_run_repeat_positive"))
    op.add_column("run", sa.Column("repeat", Count(), of_column, nullable=False, server_default=sa.text("1")))
    _change_unique(BEFORE, AFTER)


def downgrade() -> None:
    run = sa.table("run", sa.column("repeat"))
    if op.get_bind().execute(sa.select(sa.func.count()).select_from(run).where(run.c.repeat > 1)).scalar_one():
        raise BadInput("revision 0012 cannot hold the repeats of this database.")
    _change_unique(AFTER, BEFORE)
    op.drop_column("run", "repeat")


def _change_unique(before: Unique, after: Unique) -> None:
    if op.get_context().dialect.name != "sqlite":
        op.drop_constraint(op.f(before[0]), "run")
        op.create_unique_constraint(op.f(after[0]), "run", after[1])
        return
    rebuild("run", [(_as_sql(before), _as_sql(after))])


def _as_sql(unique: Unique) -> str:
    name, columns = unique
    return f"CONSTRAINT {name} UNIQUE ({', '.join(columns)})"
