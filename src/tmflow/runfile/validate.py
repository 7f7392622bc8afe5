"""Lines of run files, read and checked for all that the tables will ask of them; the database is not needed for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import first_of
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.runfile.content_hash import LISTS
from tmflow.runfile.reader import Reader, ReadRun
from tmflow.runfile.record import BACKENDS, Backend

# By list, what no two of its entries may have the same.
_KEYS = {name: attrgetter(*key) for name, key in LISTS.items()}


def line_reader() -> Reader:
    """What reads lines, and checks what many of them share once."""
    return Reader(_check_origin)


def read_run(where: str, line: str, reader: Reader) -> ReadRun:
    """Read one line of a run file, and check all that the tables will ask of it; `where` names it in the errors.

    Raises BadInput for the first fault.
    """
    try:
        read = reader.read(line, where)
        _check_evidence(read.run, where)
    except ValueError as error:  # of 1e400, which is read as infinite
        raise BadInput(f"{where}: a number in it is no JSON: {error}.") from error
    _check_time(read.run.started_at_utc, f"{where}: started_at_utc")
    for name, entries in read.lists.items():
        _check_unique(where, name, list(map(_KEYS[name], entries)))
    _check_unique(where, "fused", read.run.fused)
    return read


def _check_origin(run: record.Run, where: str) -> None:
    _check_facts(PlatformFacts, run.platform, f"{where}: platform")
    _check_facts(EnvironmentFacts, run.environment, f"{where}: environment")
    _check_time(run.campaign.created_at_utc, f"{where}: campaign.created_at_utc")
    _check_definition(run.experiment, where)


def _check_definition(experiment: record.ExperimentRef, where: str) -> None:
    actual = sha256_of(experiment.definition)
    if actual != experiment.definition_sha256:
        raise BadInput(
            f"{where}: experiment.definition_sha256 is {experiment.definition_sha256}, but the hash of the definition "
            f"is {actual}."
        )


def _check_evidence(run: record.Run, where: str) -> None:
    if run.evidence == "published":
        raise BadInput(
            f"{where}: evidence is 'published', which needs a reference, and a run file of schema version "
            f"{run.schema_version} cannot name one; allowed: measured, {', '.join(BACKENDS)}."
        )
    domain = "simulated" if run.evidence == "simulated" else "wall"
    if run.time_domain != domain:
        raise BadInput(
            f"{where}: time_domain is '{run.time_domain}' where evidence is '{run.evidence}'; allowed: {domain}."
        )
    if run.evidence not in ("simulated", run.spec.evidence):
        raise BadInput(
            f"{where}: evidence is '{run.evidence}', but its spec has the provider {run.spec.provider or 'none'}, "
            f"which makes it {run.spec.evidence}."
        )
    if run.backend is not None:
        _check_backend(run.backend, run, f"{where}: backend")


def _check_backend(backend: Backend, run: record.Run, where: str) -> None:
    if run.evidence == "emulated" and backend.name != run.spec.profile:
        raise BadInput(f"{where}.name is '{backend.name}', but the spec asks for profile '{run.spec.profile}'.")
    actual = sha256_of(backend.config)
    if actual != backend.config_sha256:
        raise BadInput(f"{where}.config_sha256 is {backend.config_sha256}, but the hash of config is {actual}.")


def _check_facts(model: type[BaseModel], facts: dict[str, object], where: str) -> None:
    try:
        model.model_validate(facts)
    except ValidationError as error:
        first = first_of(error)
        raise BadInput(f"{where}.{'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def _check_time(text: str, where: str) -> None:
    try:
        is_utc = datetime.fromisoformat(text).utcoffset() == timedelta(0)
    except ValueError:
        is_utc = False
    if not is_utc:
        example = datetime(2026, 1, 31, 12, tzinfo=UTC).isoformat()
        raise BadInput(f"{where} is '{text}', but should be an ISO 8601 time in UTC, as {example}.")


def _check_unique(where: str, field: str, keys: Sequence[Hashable]) -> None:
    if len(set(keys)) != len(keys):
        twice = next(key for key, n in Counter(keys).items() if n > 1)
        raise BadInput(f"{where}: {field} has two entries for {twice}; one is allowed.")


_MAX = 2**63 - 1  # the columns have 64 bits

Positive = Annotated[int, Field(gt=0, le=_MAX)] | None
NotNegative = Annotated[int, Field(ge=0, le=_MAX)] | None


class _Facts(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class PlatformFacts(_Facts):
    isa: str
    cpu_vendor: str | None = None
    cpu_model: str | None = None
    cpu_family: NotNegative = None
    cpu_model_no: NotNegative = None
    cpu_stepping: NotNegative = None
    sockets: Positive = None
    numa_nodes: Positive = None
    cores_physical: Positive = None
    threads_logical: Positive = None
    l1d_bytes: Positive = None
    l1d_ways: Positive = None
    l2_bytes: Positive = None
    l3_bytes: Positive = None
    cacheline_bytes: Positive = None
    memory_bytes: Positive = None
    freq_max_hz: Positive = None
    tm_capability: Literal["none", "rtm", "htm", "unknown"]


class EnvironmentFacts(_Facts):
    os: str | None = None
    kernel: str | None = None
    libc: str | None = None
    microcode: str | None = None
    governor: str | None = None
    turbo: bool | None = None
    cpus_allowed: Positive = None
    smt: bool | None = None
    thp: str | None = None
    mitigations: dict[str, Any] | None = None
    virtualisation: str | None = None
    aslr: NotNegative = None
    tm_enabled: bool | None = None
