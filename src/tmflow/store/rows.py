"""Conversion of the runs of a run file to rows of the tables: pure functions, no database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.base.errors import BadInput
from tmflow.platform.facts import display_name, slug
from tmflow.runfile import content_hash, lines
from tmflow.runfile.reader import Reader, ReadRun, Shared
from tmflow.runfile.record import (
    Backend,
    EnvironmentFacts,
    ExperimentRef,
    MachineState,
    PlatformFacts,
    Software,
)
from tmflow.spec.trial import TrialSpec
from tmflow.store import factor_columns, models
from tmflow.store.models import Base

Key = tuple[Any, ...]
Row = dict[str, Any]
Item = TypeVar("Item")

CHUNK = 1000  # keys in one statement: far below every database's limit on parameters

# Fields of a run that are columns with the same name.
PLAIN = (
    "uid",
    "evidence",
    "time_domain",
    "status",
    "reason",
    "repeat",
    "ordinal",
    "trial_seed",
    "resumed",
    "started_at_utc",
    "dataset_sha256",
    "setup_s",
    "loop_s",
    "evaluation_s",
    "total_s",
    "final_accuracy",
)


def platform_row(facts: Mapping[str, Any]) -> Row:
    """The row of a platform; its slug is a proposal that another platform may already have."""
    fields = PlatformFacts.model_validate(facts).model_dump()
    return fields | {
        "facts_sha256": sha256_of(facts),
        "facts_json": canonical_json(facts),
        "name": display_name(fields),
        "slug": slug(fields["cpu_model"] or fields["isa"], fields["threads_logical"]),
    }


def environment_row(facts: Mapping[str, Any], platform: Mapping[str, Any]) -> Row:
    """The row of an environment, without platform_id. The same settings on two platforms are two environments."""
    fields = EnvironmentFacts.model_validate(facts).model_dump()
    mitigations = fields.pop("mitigations")
    return fields | {
        "env_sha256": sha256_of({"platform": platform, "environment": facts}),
        "mitigations_json": None if mitigations is None else canonical_json(mitigations),
        "facts_json": canonical_json(facts),
    }


def software_row(software: Software) -> Row:
    versions = software.model_dump()
    return versions | {"software_sha256": sha256_of(versions)}


def backend_row(backend: Backend) -> Row:
    fields = backend.model_dump(exclude={"config"})
    return fields | {"config_json": canonical_json(backend.config)}


def spec_row(spec: TrialSpec) -> Row:
    return factor_columns.columns_of(spec) | {"spec_sha256": spec.sha256}


def experiment_row(experiment: ExperimentRef) -> Row:
    return {
        "name": experiment.name,
        "scale": experiment.scale,
        "definition_sha256": experiment.definition_sha256,
        "definition_json": canonical_json(experiment.definition),
    }


REASON = ("mechanism", "raw_code", "family")
"""The fields of an abort that its row has in place of the id of an AbortReason."""


def part(model: type[BaseModel], row: Row) -> Row:
    """The columns of a row that are fields of this part of a run file."""
    return {name: row[name] for name in model.model_fields}


def columns(model: type[Base]) -> list[str]:
    """The columns of a table in order, without the id that the database assigns."""
    return [column.name for column in model.__table__.columns if column.name != "id"]


# The fields of an entry of each list, in the order of its row.
_FIELDS = {name: [column for column in columns(model) if column != "run_id"] for name, model in models.DETAILS.items()}
_FIELDS["aborts"] = ["worker", "variable", *REASON, "n"]
_ROW = {name: attrgetter(*fields) for name, fields in _FIELDS.items()}


class IncomingRun(NamedTuple):
    """A validated run as rows of the tables, its location for messages, and the parts it shares with other runs.

    row: the row of the run, without the ids of the rows that it refers to. details: the rows of each non-empty list.
    """

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


@dataclass(frozen=True)
class IncomingFile:
    """A run file with its name and hash; without runs if the database already has the hash."""

    name: str
    sha256: str
    runs: Sequence[IncomingRun]


def read_files(paths: Iterable[Path], stored: Container[str]) -> list[IncomingFile]:
    """Read and validate the run files. Raises BadInput with file, line and field of the first fault."""
    reader = Reader()
    return [_read_file(path, stored, reader) for path in paths]


def _read_file(path: Path, stored: Container[str], reader: Reader) -> IncomingFile:
    data = lines.contents(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 in stored:
        return IncomingFile(path.name, sha256, ())
    runs = [read_line(where, line, sha256, reader) for where, line in lines.lines(path, data)]
    if not runs:
        raise BadInput(f"run file {path} is empty; a run file holds one run or more, each on a line.")
    return IncomingFile(path.name, sha256, runs)


def read_line(where: str, line: str, file_sha256: str, reader: Reader) -> IncomingRun:
    """Validate one line of a run file; `where` names it in messages. Raises BadInput for the first fault."""
    return rows_of(reader.read(line, where), where, file_sha256)


def rows_of(read: ReadRun, where: str, file_sha256: str) -> IncomingRun:
    """Convert a run that was read to rows."""
    run, lists, origin, spec = read
    serialised = {name: content_hash.serialise_list(entries) for name, entries in lists.items()}
    sha256 = content_hash.sha256(run, serialised | origin.serialised | spec.serialised)
    fields = vars(run)
    machine = vars(run.machine) if run.machine else dict.fromkeys(MachineState.model_fields)
    details: dict[str, list[Key]] = {name: list(map(_ROW[name], entries)) for name, entries in lists.items()}
    if run.fused:
        details["fused"] = [(variable,) for variable in run.fused]
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
        row={name: fields[name] for name in PLAIN} | machine | {"content_sha256": sha256, "reference_id": None},
        details=details,
    )


def weight(run: IncomingRun) -> int:
    """Batch weight: how many ordinary runs have as many rows; a run of 1000 threads has thousands of entries."""
    return 1 + sum(map(len, run.details.values())) // 200


def chunks(items: Iterable[Item], weight: Callable[[Item], int] = lambda _: 1) -> Iterator[list[Item]]:
    """Split the items into lists that each weigh about `CHUNK`."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += weight(item)
        if total >= CHUNK:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk
