"""The tally counts the runs of each contribution separately from those that were ingested here.

It is rebuilt from the runs.
"""

import sqlalchemy as sa
from alembic import op

from tmflow.store.models.base import Count, UtcTime

revision = "0010"
down_revision = "0009"

KEY = ("round_id", "platform_id", "evidence", "status")
KEY_WITH_SOURCE = ("round_id", "platform_id", "contribution_id", "evidence", "status")
EVIDENCES = "'measured', 'emulated', 'simulated', 'published'"
STATUSES = "'ok', 'failed', 'timeout', 'invalid', 'unsupported'"
WITHDRAWN = "SELECT id FROM contribution WHERE withdrawn_at_utc IS NOT NULL"
SHOWN = f"(contribution_id IS NULL OR contribution_id NOT IN ({WITHDRAWN}))"


def upgrade() -> None:
    _make_anew(KEY_WITH_SOURCE, {"contribution_id": "coalesce(contribution_id, 0)"})


def downgrade() -> None:
    _make_anew(KEY, {})


def _make_anew(key: tuple[str, ...], values: dict[str, str]) -> None:
    op.drop_table("round_tally")
    types = {"evidence": sa.Text(), "status": sa.Text()}
    op.create_table(
        "round_tally",
        *(sa.Column(name, types.get(name, Count()), nullable=False, autoincrement=False) for name in key),
        sa.Column("n_runs", Count(), nullable=False),
        sa.Column("newest_run_at_utc", UtcTime(), nullable=False),
        sa.CheckConstraint(f"evidence IN ({EVIDENCES})", name=op.f("ck_round_tally_evidence_valid")),
        sa.CheckConstraint(f"status IN ({STATUSES})", name=op.f("ck_round_tally_status_valid")),
        sa.CheckConstraint("n_runs > 0", name=op.f("ck_round_tally_n_runs_positive")),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_round_tally")),
        sa.ForeignKeyConstraint(["round_id"], ["round.id"], name=op.f("fk_round_tally_round_id")),
        sa.ForeignKeyConstraint(["platform_id"], ["platform.id"], name=op.f("fk_round_tally_platform_id")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_round_tally_platform_id"), "round_tally", ["platform_id"])
    of_key = ", ".join(f"{values.get(name, name)} AS {name}" for name in key)
    columns = ", ".join((*key, "n_runs", "newest_run_at_utc"))
    grouped = ", ".join(values.get(name, name) for name in key)
    op.execute(
        f"INSERT INTO round_tally ({columns}) SELECT {of_key}, count(*), max(started_at_utc) FROM run "
        f"WHERE {SHOWN} GROUP BY {grouped}"
    )
