"""Contributions and probes; a run refers to the contribution that brought it, and the index of searches includes that.

Software may have no Python, as in the static program. The tally has the time of the last run of a definition for each
platform, so the column that had it for all platforms together is dropped.
"""

import sqlalchemy as sa
from alembic import op

from tmflow.base.errors import BadInput
from tmflow.store.migrations import rebuild
from tmflow.store.models.base import Count, UtcTime

revision = "0008"
down_revision = "0007"

SEARCHED = (
    "spec_id", "status", "evidence", "platform_id", "round_id", "started_at_utc", "loop_s", "final_accuracy",
)  # fmt: skip
CONTRIBUTED = sa.text("contribution_id IS NOT NULL")


def upgrade() -> None:
    _make_contribution()
    _make_probe()
    # The constraint belongs to the column, so that SQLite can add it without rebuilding a table that others refer to.
    kind = Count().compile(op.get_bind().dialect)
    brought_by = "CONSTRAINT fk_run_contribution_id REFERENCES contribution (id)"
    op.execute(f"ALTER TABLE run ADD COLUMN contribution_id {kind} {brought_by}")
    op.create_index(
        op.f("ix_run_contribution_id_round_id"),
        "run",
        ["contribution_id", "round_id"],
        sqlite_where=CONTRIBUTED,
        postgresql_where=CONTRIBUTED,
    )
    _let_search_walk_over(*SEARCHED, "contribution_id")
    op.drop_column("experiment", "last_run_at_utc")
    _let_python_be_missing(nullable=True)


def downgrade() -> None:
    if op.get_bind().execute(sa.select(sa.func.count()).select_from(sa.table("contribution"))).scalar_one():
        raise BadInput("revision 0007 cannot hold the contributions of this database.")
    without_python = sa.select(sa.func.count()).where(sa.table("software", sa.column("python")).c.python.is_(None))
    if op.get_bind().execute(without_python).scalar_one():
        raise BadInput("revision 0007 cannot hold the runs of this database that were made without Python.")
    _let_python_be_missing(nullable=False)
    with_time = sa.Column("last_run_at_utc", UtcTime(), nullable=False, server_default="")
    op.add_column("experiment", with_time)
    op.execute(
        "UPDATE experiment SET last_run_at_utc = (SELECT max(newest_run_at_utc) FROM round_tally "
        "JOIN round ON round.id = round_tally.round_id WHERE round.experiment_id = experiment.id)"
    )
    _let_search_walk_over(*SEARCHED)
    op.drop_index(op.f("ix_run_contribution_id_round_id"), "run")
    op.drop_column("run", "contribution_id")
    op.drop_table("probe")
    op.drop_table("contribution")


def _make_contribution() -> None:
    op.create_table(
        "contribution",
        sa.Column("id", Count(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", Count(), nullable=False),
        sa.Column("imported_at_utc", UtcTime(), nullable=False),
        sa.Column("n_runs", Count(), nullable=False),
        sa.Column("withdrawn_at_utc", UtcTime()),
        sa.Column("withdrawn_reason", sa.Text()),
        sa.CheckConstraint("version >= 0", name=op.f("ck_contribution_version_not_negative")),
        sa.CheckConstraint("n_runs >= 0", name=op.f("ck_contribution_n_runs_not_negative")),
        sa.CheckConstraint(
            "(withdrawn_at_utc IS NULL) = (withdrawn_reason IS NULL)",
            name=op.f("ck_contribution_withdrawn_for_a_reason"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_contribution")),
        sa.UniqueConstraint("identity", name=op.f("uq_contribution_identity")),
        sqlite_strict=True,
    )


def _make_probe() -> None:
    op.create_table(
        "probe",
        sa.Column("id", Count(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("platform_id", Count(), nullable=False),
        sa.Column("contribution_id", Count(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("started_at_utc", UtcTime(), nullable=False),
        sa.Column("document_json", sa.Text(), nullable=False),
        sa.CheckConstraint("evidence IN ('measured', 'emulated')", name=op.f("ck_probe_evidence_valid")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_probe")),
        sa.UniqueConstraint("sha256", name=op.f("uq_probe_sha256")),
        sa.ForeignKeyConstraint(["platform_id"], ["platform.id"], name=op.f("fk_probe_platform_id")),
        sa.ForeignKeyConstraint(["contribution_id"], ["contribution.id"], name=op.f("fk_probe_contribution_id")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_probe_platform_id_started_at_utc"), "probe", ["platform_id", "started_at_utc"])


def _let_search_walk_over(*columns: str) -> None:
    op.drop_index("ix_run_search", "run")
    op.create_index("ix_run_search", "run", list(columns))


def _let_python_be_missing(*, nullable: bool) -> None:
    if op.get_context().dialect.name != "sqlite":
        op.alter_column("software", "python", nullable=nullable)
        return
    change = ("python TEXT NOT NULL", "python TEXT")
    rebuild("software", [change if nullable else change[::-1]])
