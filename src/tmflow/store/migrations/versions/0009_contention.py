"""Failed publications and taken blocks get separate tables; until now they were counted as retries.

Existing rows stay in place: the strategy of their run determines what they count (`tmflow.spec.strategies`).
"""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.models.base import Count

revision = "0009"
down_revision = "0008"

TABLES = ("failed_publications", "taken_blocks")


def upgrade() -> None:
    for name in TABLES:
        op.create_table(
            name,
            sa.Column("run_id", Count(), nullable=False),
            sa.Column("worker", Count(), autoincrement=False, nullable=False),
            sa.Column("variable", sa.Text(), autoincrement=False, nullable=False),
            sa.Column(name, Count(), autoincrement=False, nullable=False),
            sa.Column("updates", Count(), nullable=False),
            sa.CheckConstraint("worker >= 0", name=op.f(f"ck_{name}_worker_not_negative")),
            sa.CheckConstraint("updates >= 0", name=op.f(f"ck_{name}_updates_not_negative")),
            sa.CheckConstraint(f"{name} BETWEEN 0 AND 63", name=op.f(f"ck_{name}_{name}_range")),
            sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f(f"fk_{name}_run_id"), ondelete="CASCADE"),
            sa.PrimaryKeyConstraint("run_id", "worker", "variable", name, name=op.f(f"pk_{name}")),
            sqlite_strict=True,
            sqlite_with_rowid=False,
        )


def downgrade() -> None:
    for name in TABLES:
        if op.get_bind().execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one():
            raise BadInput(f"revision 0008 cannot hold the {name.replace('_', ' ')} that are here.")
    for name in TABLES:
        op.drop_table(name)
