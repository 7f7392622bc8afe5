"""Allow runs that are only timed: those of a user's own model have a result without an accuracy."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.migrations import replace_check

revision = "0019"
down_revision = "0018"

NAME = "ck_run_error_xor_result"
WITHOUT_RESULT = "(status <> 'ok' AND reason IS NOT NULL AND final_accuracy IS NULL)"
RESULT = "status = 'ok' AND reason IS NULL AND loop_s IS NOT NULL"
BEFORE = f"({RESULT} AND final_accuracy IS NOT NULL) OR {WITHOUT_RESULT}"
AFTER = f"({RESULT}) OR {WITHOUT_RESULT}"


def upgrade() -> None:
    replace_check("run", NAME, BEFORE, AFTER)


def downgrade() -> None:
    run = sa.table("run", sa.column("status"), sa.column("final_accuracy"))
    held = sa.select(sa.func.count()).select_from(run).where(run.c.status == "ok", run.c.final_accuracy.is_(None))
    if op.get_bind().execute(held).scalar_one():
        raise BadInput("revision 0018 cannot hold the runs without an accuracy that are here.")
    replace_check("run", NAME, AFTER, BEFORE)
