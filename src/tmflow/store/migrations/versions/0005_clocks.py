"""The clocks during a trial: whether the machine was suspended, and whether the time of day was set."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.models.base import Real

revision = "0005"
down_revision = "0004"

COLUMNS = ("suspended_s", "clock_moved_s")


def upgrade() -> None:
    # The CHECK belongs to the column, so that SQLite can add it without rebuilding a table that others refer to.
    at_least_0 = sa.CheckConstraint("suspended_s >= 0", name=op.f("ck_run_suspended_s_not_negative"))
    op.add_column("run", sa.Column("suspended_s", Real(), at_least_0))
    op.add_column("run", sa.Column("clock_moved_s", Real()))


def downgrade() -> None:
    run = sa.table("run", *map(sa.column, COLUMNS))
    has_value = sa.or_(*(run.c[name].is_not(None) for name in COLUMNS))
    if op.get_bind().execute(sa.select(sa.func.count()).select_from(run).where(has_value)).scalar_one():
        raise BadInput("revision 0004 cannot hold what the clocks did, which runs here tell.")
    for name in COLUMNS:
        op.drop_column("run", name)
