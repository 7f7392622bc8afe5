"""Tables that runs refer to: machine, software, campaign, experiment, spec. Runs share these rows.

NULL means unreadable or not applicable, never 0.
"""

from __future__ import annotations

from typing import Literal, get_args, get_origin

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from tmflow.spec.factors import DRIVER_FACTORS, VALUES_BEFORE, Factors
from tmflow.store.models.base import (
    STRICT,
    AtUtc,
    Base,
    Id,
    UniqueText,
    UtcTime,
    between,
    flags,
    not_negative,
    one_of,
    positive,
)

TM_CAPABILITIES = ("none", "rtm", "htm", "unknown")
SCALES = ("full", "quick", "adhoc")


class Platform(Base):
    """A machine. Its identity is the hash of all its facts, including facts without a column."""

    __tablename__ = "platform"
    id: Mapped[Id]
    facts_sha256: Mapped[UniqueText]
    slug: Mapped[UniqueText]
    name: Mapped[str]
    isa: Mapped[str]
    cpu_vendor: Mapped[str | None]
    cpu_model: Mapped[str | None]
    cpu_family: Mapped[int | None]
    cpu_model_no: Mapped[int | None]
    cpu_stepping: Mapped[int | None]
    sockets: Mapped[int | None]
    numa_nodes: Mapped[int | None]
    cores_physical: Mapped[int | None]
    threads_logical: Mapped[int | None]
    l1d_bytes: Mapped[int | None]
    l1d_ways: Mapped[int | None]
    l2_bytes: Mapped[int | None]
    l3_bytes: Mapped[int | None]
    cacheline_bytes: Mapped[int | None]
    memory_bytes: Mapped[int | None]
    freq_max_hz: Mapped[int | None]
    tm_capability: Mapped[str]
    facts_json: Mapped[str]
    __table_args__ = (
        # Family, model number and stepping may be 0.
        *not_negative("cpu_family", "cpu_model_no", "cpu_stepping"),
        *positive("sockets", "numa_nodes", "cores_physical", "threads_logical"),
        *positive("l1d_bytes", "l1d_ways", "l2_bytes", "l3_bytes", "cacheline_bytes", "memory_bytes", "freq_max_hz"),
        one_of("tm_capability", TM_CAPABILITIES),
        STRICT,
    )


class Environment(Base):
    """The environment of a run: operating system and settings of a platform."""

    __tablename__ = "environment"
    id: Mapped[Id]
    env_sha256: Mapped[UniqueText]
    platform_id: Mapped[int] = mapped_column(ForeignKey("platform.id"))
    os: Mapped[str | None]
    kernel: Mapped[str | None]
    libc: Mapped[str | None]
    microcode: Mapped[str | None]
    governor: Mapped[str | None]
    turbo: Mapped[bool | None]
    cpus_allowed: Mapped[int | None]
    smt: Mapped[bool | None]
    thp: Mapped[str | None]
    mitigations_json: Mapped[str | None]
    virtualisation: Mapped[str | None]
    aslr: Mapped[int | None]
    tm_enabled: Mapped[bool | None]
    facts_json: Mapped[str]
    __table_args__ = (
        *flags("turbo", "smt", "tm_enabled"),
        *positive("cpus_allowed"),
        *not_negative("aslr"),
        STRICT,
    )


class Software(Base):
    """The software of a run: versions of everything that can change a result."""

    __tablename__ = "software"
    id: Mapped[Id]
    software_sha256: Mapped[UniqueText]
    tmflow: Mapped[str]
    python: Mapped[str | None]
    tensorflow: Mapped[str | None]
    numpy: Mapped[str | None]
    compiler: Mapped[str | None]
    cflags: Mapped[str | None]
    git_commit: Mapped[str | None]
    git_dirty: Mapped[bool | None]
    lock_sha256: Mapped[str | None]
    __table_args__ = (*flags("git_dirty"), STRICT)


class Backend(Base):
    """The emulator or simulator that replaced the hardware in a run."""

    __tablename__ = "backend"
    id: Mapped[Id]
    kind: Mapped[str]
    name: Mapped[str]
    version: Mapped[str]
    config_sha256: Mapped[str]
    config_json: Mapped[str]
    __table_args__ = (
        one_of("kind", ("emulator", "simulator")),
        UniqueConstraint("name", "version", "config_sha256"),
        STRICT,
    )


class Reference(Base):
    """A publication that a number is quoted from, and the place in it."""

    __tablename__ = "reference"
    id: Mapped[Id]
    citation: Mapped[str]
    doi: Mapped[str | None]
    locator: Mapped[str]
    extraction: Mapped[str]
    uncertainty_fraction: Mapped[float | None]
    __table_args__ = (
        one_of("extraction", ("table", "digitised", "author_data")),
        *not_negative("uncertainty_fraction"),
        UniqueConstraint("citation", "locator"),
        STRICT,
    )


class RunFile(Base):
    """A run file that was ingested; its name is stored without its folder."""

    __tablename__ = "run_file"
    id: Mapped[Id]
    sha256: Mapped[UniqueText]
    name: Mapped[str]
    ingested_at_utc: Mapped[AtUtc]
    n_runs: Mapped[int]
    __table_args__ = (*not_negative("n_runs"), STRICT)


class Contribution(Base):
    """A bundle that was imported. While it is withdrawn, with a reason, its runs are hidden."""

    __tablename__ = "contribution"
    id: Mapped[Id]
    identity: Mapped[UniqueText]
    name: Mapped[str]
    version: Mapped[int]
    imported_at_utc: Mapped[AtUtc]
    n_runs: Mapped[int]
    withdrawn_at_utc: Mapped[str | None] = mapped_column(UtcTime())
    withdrawn_reason: Mapped[str | None]
    __table_args__ = (
        *not_negative("version", "n_runs"),
        CheckConstraint("(withdrawn_at_utc IS NULL) = (withdrawn_reason IS NULL)", name="withdrawn_for_a_reason"),
        STRICT,
    )


class Probe(Base):
    """The report of a probe about the transactions and the memory of a platform."""

    __tablename__ = "probe"
    id: Mapped[Id]
    sha256: Mapped[UniqueText]
    platform_id: Mapped[int] = mapped_column(ForeignKey("platform.id"))
    contribution_id: Mapped[int] = mapped_column(ForeignKey("contribution.id"))
    evidence: Mapped[str]
    started_at_utc: Mapped[AtUtc]
    document_json: Mapped[str]
    __table_args__ = (
        one_of("evidence", ("measured", "emulated")),
        Index(None, "platform_id", "started_at_utc"),
        STRICT,
    )


class Campaign(Base):
    """One invocation of the study on one machine, resumed or not."""

    __tablename__ = "campaign"
    id: Mapped[Id]
    uid: Mapped[UniqueText]
    created_at_utc: Mapped[AtUtc]
    platform_id: Mapped[int] = mapped_column(ForeignKey("platform.id"))
    __table_args__ = (STRICT,)


class Experiment(Base):
    """One definition of a named grid. A name has many definitions over time; the newest is the one run last.

    The tally determines the newest one for each platform and source.
    """

    __tablename__ = "experiment"
    id: Mapped[Id]
    name: Mapped[str]
    scale: Mapped[str]
    definition_sha256: Mapped[str]
    definition_json: Mapped[str]
    __table_args__ = (
        one_of("scale", SCALES),
        UniqueConstraint("name", "scale", "definition_sha256"),
        STRICT,
    )


class Round(Base):
    """One pass over the points of an experiment in a campaign, in an order shuffled by `order_seed`."""

    __tablename__ = "round"
    id: Mapped[Id]
    campaign_id: Mapped[int] = mapped_column(ForeignKey("campaign.id"))
    experiment_id: Mapped[int] = mapped_column(ForeignKey("experiment.id"))
    number: Mapped[int]
    order_seed: Mapped[int]
    __table_args__ = (
        *positive("number"),
        *not_negative("order_seed"),
        UniqueConstraint("campaign_id", "experiment_id", "number"),
        Index(None, "experiment_id"),
        STRICT,
    )


def _range(factor: str) -> CheckConstraint:
    """The factor is NULL or in the range of its declaration."""
    metadata = Factors.model_fields[factor].metadata
    low, high = (next(getattr(limit, end) for limit in metadata if hasattr(limit, end)) for end in ("ge", "le"))
    return between(factor, low, high)


def _choices(factor: str) -> CheckConstraint:
    """The factor is NULL or one of the choices of its declaration."""
    annotation = Factors.model_fields[factor].annotation
    literals = [kind for kind in (annotation, *get_args(annotation)) if get_origin(kind) is Literal]
    return one_of(factor, get_args(literals[0]))


class Spec(Base):
    """The factors of a trial: a column for each factor of the first versions, with the same name and range.

    `tmflow.store.factor_columns` reads and writes all factors.
    """

    __tablename__ = "spec"
    id: Mapped[Id]
    spec_sha256: Mapped[UniqueText]
    model: Mapped[str]
    dataset: Mapped[str]
    driver: Mapped[str]
    strategy: Mapped[str]
    variables: Mapped[str | None]
    threads: Mapped[int]
    batch: Mapped[int]
    matrix: Mapped[int]
    iterations: Mapped[int]
    learning_rate: Mapped[float]
    dropout_keep: Mapped[float | None]
    hidden: Mapped[int | None]
    activation: Mapped[str | None]
    seed: Mapped[int]
    intra_op_threads: Mapped[int | None]
    inter_op_threads: Mapped[int | None]
    step_call: Mapped[str | None]
    pinning: Mapped[str]
    # The defaults are the values of specs that are older than these factors.
    reading: Mapped[str] = mapped_column(server_default=str(VALUES_BEFORE["reading"]))
    layout: Mapped[str] = mapped_column(server_default=str(VALUES_BEFORE["layout"]))
    measures: Mapped[str] = mapped_column(server_default=str(VALUES_BEFORE["measures"]))
    test_images: Mapped[int]
    curve_points: Mapped[int]
    provider: Mapped[str | None]
    profile: Mapped[str | None]
    budget: Mapped[int | None]
    spending: Mapped[str | None]
    subscription: Mapped[str | None]
    chunk: Mapped[int | None]
    tunables: Mapped[str | None]
    design: Mapped[str | None]
    manager: Mapped[str | None]
    instrumentation: Mapped[str | None]
    method: Mapped[str | None]
    library: Mapped[str | None]
    kernel: Mapped[str | None]
    optimisation: Mapped[str | None]
    block: Mapped[int | None]
    promise: Mapped[str | None]
    # Later factors as canonical JSON, except those with the value of all earlier specs.
    later_factors_json: Mapped[str] = mapped_column(server_default="{}")
    __table_args__ = (
        *map(_range, ("threads", "batch", "matrix", "iterations", "hidden", "seed", "test_images", "curve_points")),
        *map(_range, ("intra_op_threads", "inter_op_threads", "budget", "chunk", "block")),
        CheckConstraint("learning_rate > 0 AND learning_rate <= 1000", name="learning_rate_range"),
        CheckConstraint("dropout_keep > 0 AND dropout_keep <= 1", name="dropout_keep_range"),
        *map(_choices, ("activation", "reading", "layout", "measures", "provider", "spending", "subscription")),
        *map(_choices, ("tunables", "design", "manager", "instrumentation", "method", "kernel", "optimisation")),
        _choices("promise"),
        CheckConstraint("(profile IS NULL) = (provider IS NULL OR provider <> 'emulated')", name="profile_of_emulated"),
        CheckConstraint("library <> ''", name="library_not_empty"),
        *[
            CheckConstraint(f"({name} IS NULL) = (driver <> 'session')", name=f"{name}_of_session")
            for name in DRIVER_FACTORS["session"]
        ],
        Index(None, "model", "strategy", "threads"),
        STRICT,
    )
