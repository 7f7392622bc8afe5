"""An index that covers all columns of a search for runs, in place of the index that finds the runs of a spec."""

from alembic import op

revision = "0007"
down_revision = "0006"

COLUMNS = (
    "spec_id", "status", "evidence", "platform_id", "round_id", "started_at_utc", "loop_s", "final_accuracy",
)  # fmt: skip


def upgrade() -> None:
    op.create_index("ix_run_search", "run", list(COLUMNS))
    op.drop_index(op.f("ix_run_spec_id"), "run")


def downgrade() -> None:
    op.create_index(op.f("ix_run_spec_id"), "run", ["spec_id"])
    op.drop_index("ix_run_search", "run")
