"""Run files on their way into the database: read, and checked for all that the tables will ask of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from tmflow.canonical import sha256_of
from tmflow.errors import BadInput
from tmflow.runner import content, run_lines, runfile
from tmflow.runner.runfile import BACKENDS, Backend
from tmflow.store.details import details, keys
from tmflow.store.facts import EnvironmentFacts, PlatformFacts
from tmflow.store.once import Key
from tmflow.store.rows import Row, run_row
from tmflow.store.shared import Reader, Shared
from tmflow.validation import first_of


class IncomingRun(NamedTuple):
    """A run, checked, as rows of the tables; where it came from, and what it shares with others."""

    where: str
    file_sha256: str
    uid: str
    content_sha256: str
    origin: Shared
    spec: Shared
    backend: Backend | None
    round: int
    order_seed: int
    row: Row
    details: dict[str, list[Key]]


class ReadRun(NamedTuple):
    """A run, checked, without its lists, and what it shares with others; its lists, and as rows of their tables."""

    run: runfile.Run
    lists: dict[str, Sequence[Any]]
    origin: Shared
    spec: Shared
    details: dict[str, list[Key]]


@dataclass(frozen=True)
class IncomingFile:
    """A run file by its name and hash; its runs are not read if the database knows the hash."""

    name: str
    sha256: str
    runs: Sequence[IncomingRun]


def read_files(paths: Iterable[Path], known: Container[str]) -> list[IncomingFile]:
    """Read and check the run files. Raises BadInput naming file, line and field of the first fault."""
    reader = line_reader()
    return [_read_file(path, known, reader) for path in paths]


def line_reader() -> Reader:
    """What reads lines, and checks what many of them share once."""
    return Reader(_check_origin)


def _read_file(path: Path, known: Container[str], reader: Reader) -> IncomingFile:
    data = run_lines.contents(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 in known:
        return IncomingFile(path.name, sha256, ())
    runs = [read_line(where, line, sha256, reader) for where, line in run_lines.lines(path, data)]
    if not runs:
        raise BadInput(f"run file {path} is empty; a run file holds one run or more, each on a line.")
    return IncomingFile(path.name, sha256, runs)


def read_line(where: str, line: str, file_sha256: str, reader: Reader) -> IncomingRun:
    """Check one line of a run file; `where` names it in the errors. Raises BadInput for the first fault."""
    return rows_of(read_run(where, line, reader), where, file_sha256)


def read_run(where: str, line: str, reader: Reader) -> ReadRun:
    """The first half of `read_line`, where all that can be wrong with a line is found."""
    try:
        run, lists, origin, spec = reader.read(line, where)
        _check_evidence(run, where)
    except ValueError as error:  # of 1e400, which is read as infinite
        raise BadInput(f"{where}: a number in it is no JSON: {error}.") from error
    _check_time(run.started_at_utc, f"{where}: started_at_utc")
    its_details = details(lists, run.fused)
    for name, rows in its_details.items():
        _check_unique(where, name, keys(name, rows))
    return ReadRun(run, lists, origin, spec, its_details)


def rows_of(read: ReadRun, where: str, file_sha256: str) -> IncomingRun:
    """The second half of `read_line`."""
    run, lists, origin, spec, its_details = read
    spelt = {name: content.listed(entries) for name, entries in lists.items()}
    sha256 = content.sha256(run, spelt | origin.spelt | spec.spelt)
    return IncomingRun(
        where=where,
        file_sha256=file_sha256,
        uid=run.uid,
        content_sha256=sha256,
        origin=origin,
        spec=spec,
        backend=run.backend,
        round=run.round,
        order_seed=run.order_seed,
        row=run_row(run, sha256),
        details=its_details,
    )


def weight(run: IncomingRun) -> int:
    """In how many ordinary runs there is as much: one of a thousand threads has thousands of entries."""
    return 1 + sum(map(len, run.details.values())) // 200


def _check_origin(run: runfile.Run, where: str) -> None:
    _check_facts(PlatformFacts, run.platform, f"{where}: platform")
    _check_facts(EnvironmentFacts, run.environment, f"{where}: environment")
    _check_time(run.campaign.created_at_utc, f"{where}: campaign.created_at_utc")
    _check_definition(run.experiment, where)


def _check_definition(experiment: runfile.ExperimentRef, where: str) -> None:
    actual = sha256_of(experiment.definition)
    if actual != experiment.definition_sha256:
        raise BadInput(
            f"{where}: experiment.definition_sha256 is {experiment.definition_sha256}, but the hash of the definition "
            f"is {actual}."
        )


def _check_evidence(run: runfile.Run, where: str) -> None:
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


def _check_backend(backend: Backend, run: runfile.Run, where: str) -> None:
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
