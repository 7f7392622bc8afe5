"""Allow the block 0: the blocks of a strategy fit the size of the variable."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.migrations import replace_check

revision = "0018"
down_revision = "0017"

NAME = "ck_spec_block_range"
BEFORE = "block BETWEEN 1 AND 1000000000"
AFTER = "block BETWEEN 0 AND 1000000000"


def upgrade() -> None:
    replace_check("spec", NAME, BEFORE, AFTER)


def downgrade() -> None:
    spec = sa.table("spec", sa.column("block"))
    held = sa.select(sa.func.count()).select_from(spec).where(spec.c.block == 0)
    if op.get_bind().execute(held).scalar_one():
        raise BadInput("revision 0017 cannot hold the block 0, which some specs here have.")
    replace_check("spec", NAME, AFTER, BEFORE)
