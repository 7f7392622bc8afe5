"""Allow the subscription `slots`: a transaction elides the mutexes of a variable and of its optimiser's slots."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.migrations import replace_check

revision = "0017"
down_revision = "0016"

NAME = "ck_spec_subscription_valid"
BEFORE = "subscription IN ('variable', 'ours')"
AFTER = "subscription IN ('variable', 'slots', 'ours')"


def upgrade() -> None:
    replace_check("spec", NAME, BEFORE, AFTER)


def downgrade() -> None:
    spec = sa.table("spec", sa.column("subscription"))
    held = sa.select(sa.func.count()).select_from(spec).where(spec.c.subscription == "slots")
    if op.get_bind().execute(held).scalar_one():
        raise BadInput("revision 0016 cannot hold the subscription slots, which some specs here have.")
    replace_check("spec", NAME, AFTER, BEFORE)
