"""The number of runs of each round, counted from the stored runs; indexes for lists, newest first."""

import sqlalchemy as sa
from alembic import op

from tmflow.store.models.base import Count, UtcTime

revision = "0006"
down_revision = "0005"

INDEXES = (("started_at_utc",), ("status", "started_at_utc"), ("platform_id", "started_at_utc"))
KEY = ("round_id", "platform_id", "evidence", "status")
EVIDENCES = "'measured', 'emulated', 'simulated', 'published'"
STATUSES = "'ok', 'failed', 'timeout', 'invalid', 'unsupported'"


def upgrade() -> None:
    op.create_table(
        "round_tally",
        sa.Column("round_id", Count(), nullable=False),
        sa.Column("platform_id", Count(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("n_runs", Count(), nullable=False),
        sa.Column("newest_run_at_utc", UtcTime(), nullable=False),
        sa.CheckConstraint(f"evidence IN ({EVIDENCES})", name=op.f("ck_round_tally_evidence_valid")),
        sa.CheckConstraint(f"status IN ({STATUSES})", name=op.f("ck_round_tally_status_valid")),
        sa.CheckConstraint("n_runs > 0", name=op.f("ck_round_tally_n_runs_positive")),
        sa.PrimaryKeyConstraint(*KEY, name=op.f("pk_round_tally")),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name=op.f("fk_round_tally_round_id")),
        sa.ForeignKeyConstraint(["platform_id"], ["platform.id"], name=op.f("fk_round_tally_platform_id")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_round_tally_platform_id"), "round_tally", ["platform_id"])
    key = ", ".join(KEY)
    op.execute(
        f"INSERT INTO round_tally ({key}, n_runs, newest_run_at_utc) "
        f"SELECT {key}, count(*), max(started_at_utc) FROM run GROUP BY {key}"
    )
    for columns in INDEXES:
        op.create_index(_name(columns), "run", list(columns))


def downgrade() -> None:
    for columns in INDEXES:
        op.drop_index(_name(columns), "run")
    op.drop_table("round_tally")


def _name(columns: tuple[str, ...]) -> str:
    return op.f(f"ix_run_{'_'.join(columns)}")
