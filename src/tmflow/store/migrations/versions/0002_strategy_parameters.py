"""The parameters of strategies, as factors of a spec: NULL in every spec that was recorded before."""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.models.base import Count

revision = "0002"
down_revision = "0001"

COLUMNS = ("provider", "budget", "spending", "chunk")


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_spec_{name}"))


def upgrade() -> None:
    # Each CHECK belongs to one column, so SQLite can add the column without rebuilding a table that others refer to.
    for column in (
        sa.Column("provider", sa.Text(), _check("provider_valid", "provider IN ('rtm', 'power')")),
        sa.Column("budget", Count(), _check("budget_range", "budget BETWEEN 0 AND 1000000")),
        sa.Column("spending", sa.Text(), _check("spending_valid", "spending IN ('study_tsx', 'study_power', 'tuned')")),
        sa.Column("chunk", Count(), _check("chunk_range", "chunk BETWEEN 0 AND 1000000000")),
    ):
        op.add_column("spec", column)


def downgrade() -> None:
    spec = sa.table("spec", *(sa.column(name) for name in COLUMNS))
    in_use = sa.select(sa.func.count()).where(sa.or_(*(spec.c[name].is_not(None) for name in COLUMNS)))
    if op.get_bind().execute(in_use).scalar_one():
        raise BadInput("revision 0001 cannot hold the parameters of strategies that this database has.")
    for name in COLUMNS:
        op.drop_column("spec", name)
