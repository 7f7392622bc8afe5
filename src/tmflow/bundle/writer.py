"""Writes the runs of a results folder with their metadata as a bundle; equal content gives equal bytes."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.base.errors import BadInput, unknown
from tmflow.base.files import whole_file, writing
from tmflow.bundle import format, signature
from tmflow.bundle import format as manifest
from tmflow.bundle.format import Entry
from tmflow.platform.facts import display_name, slug
from tmflow.runfile import lines

MAX_LOG = 64 * format.KIB  # bytes kept of the end of a log
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest date of the zip format
_REGULAR_FILE = 0o100644
_UNIX = 3


@dataclass(frozen=True)
class RunSelection:
    """A filter of the runs to export; an empty field does not restrict."""

    experiments: Sequence[str] = ()
    scale: str | None = None
    evidence: str | None = None


@dataclass(frozen=True)
class Exported:
    """A bundle that was written."""

    path: Path
    identity: str
    runs: int
    platform: str


@dataclass
class _Selection:
    """The runs to export: their files and common metadata."""

    runs: int = 0
    files: list[tuple[str, Path]] = field(default_factory=list)
    scales: set[str] = field(default_factory=set)
    platform: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    newest: str = ""


Content = Callable[[], Iterator[bytes]]


def export(
    results: Path, output: Path, run_filter: RunSelection, config: Path | None, signing_key: Path | None = None
) -> Exported:
    """Write the selected runs of a results folder as a bundle; if `output` is a folder, under a generated name.

    config: the study's config.yaml, if its runs are exported. signing_key: an OpenSSH key for a signature. Raises
    BadInput, and writes nothing, if there is nothing to export, the key cannot sign, runs are of several platforms, or
    a file is damaged or changes meanwhile.
    """
    selection = _select_runs(results, run_filter)
    if selection.platform is None or selection.environment is None:
        raise BadInput(f"nothing to export: no run in {results / 'runs'} matches the request.")
    contents = _contents(results, selection, run_filter, config)
    entries = [_entry(name, content) for name, content in sorted(contents.items())]
    data = manifest.text(entries)
    identity = manifest.identity(data)
    contents[format.MANIFEST] = _text(data)
    if signing_key is not None:
        contents[format.SIGNATURE] = _text(signature.sign(data, signing_key))
    name = display_name(selection.platform)
    path = output / _file_name(selection.platform, identity) if output.is_dir() else output
    with whole_file(path) as new, writing(path):
        _write(new, contents, {entry.path: entry.sha256 for entry in entries})
    return Exported(path, identity, selection.runs, name)


def _file_name(facts: dict[str, Any], identity: str) -> str:
    return f"{slug(facts.get('cpu_model') or facts['isa'], facts.get('threads_logical'))}-{identity[:12]}.zip"


def _select_runs(results: Path, run_filter: RunSelection) -> _Selection:
    selection, folder = _Selection(), results / "runs"
    paths = sorted(folder.glob(f"{run_filter.scale or '*'}/*/*/*.jsonl"))
    experiments_with_runs = {path.relative_to(folder).parts[1] for path in paths}
    if experiments_with_runs and (
        without := next((name for name in run_filter.experiments if name not in experiments_with_runs), None)
    ):
        raise unknown(f"experiment of the runs in {folder}", without, experiments_with_runs)
    for path in paths:
        scale, experiment, definition, name = path.relative_to(folder).parts
        if run_filter.experiments and experiment not in run_filter.experiments:
            continue
        member = f"runs/{experiment}/{definition}/{name}"
        if not format.RUNS.fullmatch(member):
            raise BadInput(
                f"{path} is no run file of a study, which are <scale>/<experiment>/<definition>/round-NNN.jsonl: "
                "move it elsewhere."
            )
        n_before = selection.runs
        for where, run in _runs(path, run_filter):
            _note(selection, run, where)
        if selection.runs > n_before:
            selection.files.append((member, path))
            selection.scales.add(scale)
    return selection


def _note(selection: _Selection, run: dict[str, Any], where: str) -> None:
    try:
        platform, environment, started = run["platform"], run["environment"], run["started_at_utc"]
    except KeyError as error:
        raise BadInput(f"{where}: {error} is missing; a run has one.") from error
    if selection.platform not in (None, platform):
        raise BadInput(
            f"{where} is of another platform than the runs before it; a bundle has the runs of one: keep the run files "
            "of each machine in a results folder of its own, and name it by TMFLOW_RESULTS_DIR."
        )
    selection.runs += 1
    selection.platform = platform
    if started >= selection.newest:
        selection.newest, selection.environment = started, environment


def _runs(path: Path, run_filter: RunSelection) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, line in lines.lines(path, lines.contents(path)):
        run = lines.decoded(line, where)
        if run_filter.evidence in (None, run.get("evidence")):
            yield where, run


def _contents(
    results: Path, selection: _Selection, run_filter: RunSelection, config: Path | None
) -> dict[str, Content]:
    """The content of each member of the bundle, by name."""
    platform = {
        "environment": selection.environment,
        "facts": selection.platform,
        "name": display_name(selection.platform or {}),
        "sha256": sha256_of(selection.platform),
    }
    contents: dict[str, Content] = {format.PLATFORM: _text(canonical_json(platform).encode())}
    contents |= {member: _run_file(path, run_filter) for member, path in selection.files}
    if len(selection.scales) == 1:
        contents |= _file(format.CAMPAIGN, results / "runs" / next(iter(selection.scales)) / "campaign.json")
    contents |= _file(format.PROBE, results / "probe.json")
    if config is not None:
        contents |= _file(format.CONFIG, config)
    for path in sorted((results / "logs").rglob("*")):
        member = f"logs/{path.relative_to(results / 'logs').as_posix()}"
        if path.is_file() and format.is_allowed_name(member):
            contents |= _file(member, path, MAX_LOG)
    return contents


def _text(data: bytes) -> Content:
    return lambda: iter([data])


def _file(member: str, path: Path, at_most: int = 0) -> dict[str, Content]:
    """The content of a file, or of its last `at_most` bytes; empty if the file is missing."""
    if not path.is_file():
        return {}
    try:
        return {member: _text(path.read_bytes()[-at_most:])}
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error


def _run_file(path: Path, run_filter: RunSelection) -> Content:
    """The selected lines of a run file, unchanged."""
    if run_filter.evidence is None:
        return lambda: iter([lines.contents(path)])
    return lambda: (
        f"{line}\n".encode()
        for where, line in lines.lines(path, lines.contents(path))
        if lines.decoded(line, where).get("evidence") == run_filter.evidence
    )


def _entry(name: str, content: Content) -> Entry:
    sha256, n_bytes = hashlib.sha256(), 0
    for chunk in content():
        sha256.update(chunk)
        n_bytes += len(chunk)
    return Entry(name, n_bytes, sha256.hexdigest())


def _write(path: Path, contents: dict[str, Content], hashes: dict[str, str]) -> None:
    """Write the zip file with LZMA, which gives half the size of deflate (docs/adr/0005)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in sorted(contents.items()):
            member = zipfile.ZipInfo(name, _DATE)
            member.create_system, member.external_attr = _UNIX, _REGULAR_FILE << 16
            member.compress_type = zipfile.ZIP_LZMA
            sha256 = hashlib.sha256()
            with archive.open(member, "w") as file:
                for chunk in content():
                    sha256.update(chunk)
                    file.write(chunk)
            if hashes.get(name, sha256.hexdigest()) != sha256.hexdigest():
                raise BadInput(f"{name} changed while it was exported: export again when nothing is being measured.")
