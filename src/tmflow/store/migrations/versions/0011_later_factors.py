"""Factors added from now on are stored in one JSON document of a spec, so they need no column or migration."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("spec", sa.Column("later_factors_json", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    spec = sa.table("spec", sa.column("later_factors_json"))
    held = sa.select(sa.func.count()).select_from(spec).where(spec.c.later_factors_json != "{}")
    if op.get_bind().execute(held).scalar_one():
        raise BadInput("revision 0010 cannot hold the factors that some specs here have.")
    op.drop_column("spec", "later_factors_json")
