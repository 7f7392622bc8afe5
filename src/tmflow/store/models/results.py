"""Tables of measurements: the run and its details. An absent row means not measured; a 0 means measured zero."""

from __future__ import annotations

from typing import get_args

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from tmflow.runfile import record
from tmflow.spec.trial import Evidence, Status, TimeDomain
from tmflow.store.models.base import (
    STRICT,
    STRICT_WITHOUT_ROWID,
    AtUtc,
    Base,
    Id,
    KeyInt,
    KeyText,
    RunId,
    UniqueText,
    between,
    flags,
    not_negative,
    one_of,
    positive,
)

CONTRIBUTED = text("contribution_id IS NOT NULL")


class Run(Base):
    """A recorded trial: its spec, round and environment, and its result or the reason why it has none."""

    __tablename__ = "run"
    id: Mapped[Id]
    uid: Mapped[UniqueText]
    content_sha256: Mapped[UniqueText]
    run_file_id: Mapped[int] = mapped_column(ForeignKey("run_file.id"))
    round_id: Mapped[int] = mapped_column(ForeignKey("round.id"))
    spec_id: Mapped[int] = mapped_column(ForeignKey("spec.id"))
    platform_id: Mapped[int] = mapped_column(ForeignKey("platform.id"))
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environment.id"))
    software_id: Mapped[int] = mapped_column(ForeignKey("software.id"))
    backend_id: Mapped[int | None] = mapped_column(ForeignKey("backend.id"))
    reference_id: Mapped[int | None] = mapped_column(ForeignKey("reference.id"))
    evidence: Mapped[str]
    time_domain: Mapped[str]
    status: Mapped[str]
    reason: Mapped[str | None]
    repeat: Mapped[int] = mapped_column(server_default=text("1"))
    ordinal: Mapped[int]
    trial_seed: Mapped[int]
    resumed: Mapped[bool]
    started_at_utc: Mapped[AtUtc]
    dataset_sha256: Mapped[str | None]
    setup_s: Mapped[float | None]
    loop_s: Mapped[float | None]
    evaluation_s: Mapped[float | None]
    total_s: Mapped[float | None]
    final_accuracy: Mapped[float | None]
    load1_before: Mapped[float | None]
    load1_after: Mapped[float | None]
    steal_fraction: Mapped[float | None]
    others_fraction: Mapped[float | None]
    suspended_s: Mapped[float | None]
    clock_moved_s: Mapped[float | None]
    disturbed: Mapped[bool | None]
    # The contribution that brought the run; NULL for a local run.
    contribution_id: Mapped[int | None] = mapped_column(ForeignKey("contribution.id"))
    __table_args__ = (
        # A round belongs to a campaign, so (campaign, experiment, spec, round, repeat) is unique.
        UniqueConstraint("round_id", "spec_id", "repeat"),
        one_of("evidence", get_args(Evidence)),
        one_of("time_domain", get_args(TimeDomain)),
        one_of("status", get_args(Status)),
        CheckConstraint(
            "(status = 'ok' AND reason IS NULL AND loop_s IS NOT NULL)"
            " OR (status <> 'ok' AND reason IS NOT NULL AND final_accuracy IS NULL)",
            name="error_xor_result",
        ),
        CheckConstraint(
            "(evidence IN ('emulated', 'simulated')) = (backend_id IS NOT NULL)", name="backend_of_substitutes"
        ),
        CheckConstraint("(evidence = 'published') = (reference_id IS NOT NULL)", name="reference_of_published"),
        CheckConstraint("(evidence = 'published') = (environment_id IS NULL)", name="no_environment_of_published"),
        CheckConstraint("(evidence = 'published') = (time_domain = 'reported')", name="published_time_is_reported"),
        CheckConstraint("(evidence = 'simulated') = (time_domain = 'simulated')", name="simulated_time_is_simulated"),
        *flags("resumed", "disturbed"),
        *positive("loop_s", "repeat"),
        *not_negative("ordinal", "trial_seed", "setup_s", "evaluation_s", "total_s", "suspended_s"),
        *[between(column, 0, 1) for column in ("final_accuracy", "steal_fraction", "others_fraction")],
        # A covering index for searches: they scan the matching specs here and read no row of the table.
        Index(
            "ix_run_search",
            "spec_id",
            "status",
            "evidence",
            "platform_id",
            "round_id",
            "started_at_utc",
            "loop_s",
            "final_accuracy",
            "contribution_id",
        ),
        Index(None, "run_file_id"),
        # Partial: most databases have few contributed runs.
        Index(None, "contribution_id", "round_id", sqlite_where=CONTRIBUTED, postgresql_where=CONTRIBUTED),
        # For lists of runs, newest first: all runs, runs of a status, runs of a platform.
        Index(None, "started_at_utc"),
        Index(None, "status", "started_at_utc"),
        Index(None, "platform_id", "started_at_utc"),
        STRICT,
    )


class RoundTally(Base):
    """Number of runs of a round by platform, source, evidence and status; counted at ingest for the pages.

    `contribution_id` is 0 for local runs, because no key may be NULL. Runs of a withdrawn contribution do not count.
    """

    __tablename__ = "round_tally"
    round_id: Mapped[int] = mapped_column(ForeignKey("round.id"), primary_key=True)
    platform_id: Mapped[int] = mapped_column(ForeignKey("platform.id"), primary_key=True)
    contribution_id: Mapped[KeyInt]
    evidence: Mapped[KeyText]
    status: Mapped[KeyText]
    n_runs: Mapped[int]
    newest_run_at_utc: Mapped[AtUtc]
    __table_args__ = (
        one_of("evidence", get_args(Evidence)),
        one_of("status", get_args(Status)),
        *positive("n_runs"),
        Index(None, "platform_id"),
        STRICT_WITHOUT_ROWID,
    )


class Counters(Base):
    """Counts of one worker on one variable."""

    __tablename__ = "counters"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    variable: Mapped[KeyText]
    updates: Mapped[int]
    commits: Mapped[int | None]
    fallbacks: Mapped[int | None]
    attempts: Mapped[int | None]
    lock_waited_s: Mapped[float | None]
    lock_held_s: Mapped[float | None]
    __table_args__ = (
        *not_negative("worker", "updates", "commits", "fallbacks", "attempts", "lock_waited_s", "lock_held_s"),
        STRICT_WITHOUT_ROWID,
    )


class AbortReason(Base):
    """A complete raw abort code of a mechanism, and the family that it counts in."""

    __tablename__ = "abort_reason"
    id: Mapped[Id]
    mechanism: Mapped[str]
    raw_code: Mapped[str]
    family: Mapped[str]
    __table_args__ = (
        one_of("family", get_args(record.Abort.model_fields["family"].annotation)),
        UniqueConstraint("mechanism", "raw_code", "family"),
        STRICT,
    )


class ThreadAbort(Base):
    """How often a worker's transactions on a variable aborted for a reason."""

    __tablename__ = "thread_abort"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    variable: Mapped[KeyText]
    reason_id: Mapped[int] = mapped_column(ForeignKey("abort_reason.id"), primary_key=True)
    n: Mapped[int]
    __table_args__ = (*not_negative("worker", "n"), STRICT_WITHOUT_ROWID)


class RunAbort(Base):
    """Aborts of an entire run by reason: the sum of its ThreadAbort rows, computed at ingest for frequent queries."""

    __tablename__ = "run_abort"
    run_id: Mapped[RunId]
    reason_id: Mapped[int] = mapped_column(ForeignKey("abort_reason.id"), primary_key=True)
    n: Mapped[int]
    __table_args__ = (*not_negative("n"), STRICT_WITHOUT_ROWID)


class CurvePoint(Base):
    """Test accuracy after `iteration` steps of all workers together."""

    __tablename__ = "curve_point"
    run_id: Mapped[RunId]
    iteration: Mapped[KeyInt]
    elapsed_s: Mapped[float]
    accuracy: Mapped[float]
    __table_args__ = (*not_negative("iteration", "elapsed_s"), between("accuracy", 0, 1), STRICT_WITHOUT_ROWID)


class Staleness(Base):
    """How many steps of a worker saw exactly `staleness` updates by other workers between reading and applying."""

    __tablename__ = "staleness"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    staleness: Mapped[KeyInt]
    steps: Mapped[int]
    __table_args__ = (*not_negative("worker", "staleness", "steps"), STRICT_WITHOUT_ROWID)


class Retries(Base):
    """How many critical sections of a worker on a variable had exactly `retries` aborted attempts.

    For the strategies in `spec.strategies.KIND_IN_RETRIES`, old runs hold here what these strategies count.
    """

    __tablename__ = "retries"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    variable: Mapped[KeyText]
    retries: Mapped[KeyInt]
    sections: Mapped[int]
    __table_args__ = (*not_negative("worker", "sections"), between("retries", 0, 63), STRICT_WITHOUT_ROWID)


class FailedPublications(Base):
    """How many updates of a worker had exactly `failed_publications` private copies that were not published."""

    __tablename__ = "failed_publications"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    variable: Mapped[KeyText]
    failed_publications: Mapped[KeyInt]
    updates: Mapped[int]
    __table_args__ = (
        *not_negative("worker", "updates"),
        between("failed_publications", 0, 63),
        STRICT_WITHOUT_ROWID,
    )


class TakenBlocks(Base):
    """How many updates of a worker met exactly `taken_blocks` blocks of the variable held by another thread."""

    __tablename__ = "taken_blocks"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    variable: Mapped[KeyText]
    taken_blocks: Mapped[KeyInt]
    updates: Mapped[int]
    __table_args__ = (*not_negative("worker", "updates"), between("taken_blocks", 0, 63), STRICT_WITHOUT_ROWID)


class VariableRead(Base):
    """A worker's reads of a variable, and how many of them were torn."""

    __tablename__ = "variable_read"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    variable: Mapped[KeyText]
    reads: Mapped[int]
    torn: Mapped[int]
    __table_args__ = (
        *not_negative("worker", "torn"),
        CheckConstraint("torn <= reads", name="torn_are_reads"),
        STRICT_WITHOUT_ROWID,
    )


class Process(Base):
    """A process of a cluster, by its role and its index in the role."""

    __tablename__ = "process"
    run_id: Mapped[RunId]
    role: Mapped[KeyText]
    index: Mapped[KeyInt]
    host: Mapped[str]
    steps: Mapped[int | None]
    loop_s: Mapped[float | None]
    cpu_s: Mapped[float | None]
    exit: Mapped[int | None]
    __table_args__ = (
        one_of("role", get_args(record.Process.model_fields["role"].annotation)),
        CheckConstraint('"index" >= 0', name="index_not_negative"),  # in quotes, because it is a word of SQL
        *not_negative("steps", "loop_s", "cpu_s"),
        between("exit", -64, 255),
        STRICT_WITHOUT_ROWID,
    )


class Phase(Base):
    """Mean seconds of a phase of a worker's step, over the `samples` steps that were traced, and what it transfers."""

    __tablename__ = "phase"
    run_id: Mapped[RunId]
    worker: Mapped[KeyInt]
    phase: Mapped[KeyText]
    samples: Mapped[int]
    seconds: Mapped[float]
    transfers: Mapped[int | None]
    bytes: Mapped[int | None]
    __table_args__ = (
        one_of("phase", get_args(record.Phase.model_fields["phase"].annotation)),
        *positive("samples"),
        *not_negative("worker", "seconds", "transfers", "bytes"),
        STRICT_WITHOUT_ROWID,
    )


class FusedUpdate(Base):
    """A variable whose updates were fused with their gradients."""

    __tablename__ = "fused_update"
    run_id: Mapped[RunId]
    variable: Mapped[KeyText]
    __table_args__ = (STRICT_WITHOUT_ROWID,)


class LostUpdate(Base):
    """Updates of the elements of a variable, and how many of them were lost.

    If the optimiser keeps arrays beside the variable: its elements, and those with other updates than the arrays have.
    """

    __tablename__ = "lost_update"
    run_id: Mapped[RunId]
    variable: Mapped[KeyText]
    expected: Mapped[int]
    lost: Mapped[int]
    elements: Mapped[int | None]
    inconsistent: Mapped[int | None]
    __table_args__ = (
        *not_negative("lost", "elements", "inconsistent"),
        CheckConstraint("lost <= expected", name="lost_were_made"),
        CheckConstraint("inconsistent <= elements", name="inconsistent_are_elements"),
        STRICT_WITHOUT_ROWID,
    )


# The lists of a run whose entries have a column for each field.
DETAILS: dict[str, type[Base]] = {
    "curve": CurvePoint,
    "counters": Counters,
    "staleness": Staleness,
    "retries": Retries,
    "failed_publications": FailedPublications,
    "taken_blocks": TakenBlocks,
    "reads": VariableRead,
    "lost": LostUpdate,
    "processes": Process,
    "phases": Phase,
}
