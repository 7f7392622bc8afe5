"""The phases of a step have the number and the bytes of the transfers between tasks."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.models.base import Count

revision = "0015"
down_revision = "0014"

COLUMNS = ("transfers", "bytes")


def upgrade() -> None:
    for name in COLUMNS:
        not_negative = sa.CheckConstraint(f"{name} >= 0", name=op.f(f"ck_phase_{name}_not_negative"))
        op.add_column("phase", sa.Column(name, Count(), not_negative))


def downgrade() -> None:
    phase = sa.table("phase", *map(sa.column, COLUMNS))
    has_value = sa.or_(*(phase.c[name].is_not(None) for name in COLUMNS))
    if op.get_bind().execute(sa.select(sa.func.count()).select_from(phase).where(has_value)).scalar_one():
        raise BadInput("revision 0014 cannot hold what the steps of clusters here transfer.")
    for name in COLUMNS:
        op.drop_column("phase", name)
