"""Lost updates have the number of elements whose weight contains other updates than the optimiser's arrays."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.models.base import Count

revision = "0016"
down_revision = "0015"

COLUMNS = ("elements", "inconsistent")


def upgrade() -> None:
    for name in COLUMNS:
        checks = [sa.CheckConstraint(f"{name} >= 0", name=op.f(f"ck_lost_update_{name}_not_negative"))]
        if name == "inconsistent":
            are_elements = op.f("ck_lost_update_inconsistent_are_elements")
            checks.append(sa.CheckConstraint("inconsistent <= elements", name=are_elements))
        op.add_column("lost_update", sa.Column(name, Count(), *checks))


def downgrade() -> None:
    lost = sa.table("lost_update", *map(sa.column, COLUMNS))
    has_value = sa.or_(*(lost.c[name].is_not(None) for name in COLUMNS))
    if op.get_bind().execute(sa.select(sa.func.count()).select_from(lost).where(has_value)).scalar_one():
        raise BadInput("revision 0015 cannot hold the inconsistent elements that are here.")
    for name in reversed(COLUMNS):  # a check of the second is about both
        op.drop_column("lost_update", name)
