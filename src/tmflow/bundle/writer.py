"""The runs of a results folder, with what they belong to, as a bundle: the same content gives the same bytes."""

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

MAX_LOG = 64 * format.KIB  # of a log, its end
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can tell
_REGULAR_FILE = 0o100644
_UNIX = 3


@dataclass(frozen=True)
class Chosen:
    """Which runs to export; what is not named chooses all."""

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
class _Found:
    """What the runs to export say of themselves."""

    runs: int = 0
    files: list[tuple[str, Path]] = field(default_factory=list)
    scales: set[str] = field(default_factory=set)
    platform: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    newest: str = ""


Content = Callable[[], Iterator[bytes]]


def export(
    results: Path, output: Path, chosen: Chosen, config: Path | None, signing_key: Path | None = None
) -> Exported:
    """Write the chosen runs of a results folder as a bundle; into a folder, under a name of its own.

    config: the study's, where runs of it are exported. signing_key: an OpenSSH key to sign it with. Raises BadInput,
    and leaves nothing, where there is nothing to export, the key cannot sign, runs are of several platforms, or a file
    is damaged or changes meanwhile.
    """
    found = _found(results, chosen)
    if found.platform is None or found.environment is None:
        raise BadInput(f"nothing to export: no run in {results / 'runs'} is of what was asked for.")
    contents = _contents(results, found, chosen, config)
    entries = [_entry(name, content) for name, content in sorted(contents.items())]
    data = manifest.text(entries)
    identity = manifest.identity(data)
    contents[format.MANIFEST] = _text(data)
    if signing_key is not None:
        contents[format.SIGNATURE] = _text(signature.sign(data, signing_key))
    name = display_name(found.platform)
    path = output / _file_name(found.platform, identity) if output.is_dir() else output
    with whole_file(path) as new, writing(path):
        _write(new, contents, {entry.path: entry.sha256 for entry in entries})
    return Exported(path, identity, found.runs, name)


def _file_name(facts: dict[str, Any], identity: str) -> str:
    return f"{slug(facts.get('cpu_model') or facts['isa'], facts.get('threads_logical'))}-{identity[:12]}.zip"


def _found(results: Path, chosen: Chosen) -> _Found:
    found, folder = _Found(), results / "runs"
    paths = sorted(folder.glob(f"{chosen.scale or '*'}/*/*/*.jsonl"))
    there = {path.relative_to(folder).parts[1] for path in paths}
    if there and (without := next((name for name in chosen.experiments if name not in there), None)):
        raise unknown(f"experiment of the runs in {folder}", without, there)
    for path in paths:
        scale, experiment, definition, name = path.relative_to(folder).parts
        if chosen.experiments and experiment not in chosen.experiments:
            continue
        member = f"runs/{experiment}/{definition}/{name}"
        if not format.RUNS.fullmatch(member):
            raise BadInput(
                f"{path} is no run file of a study, which are <scale>/<experiment>/<definition>/round-NNN.jsonl: "
                "move it elsewhere."
            )
        n_before = found.runs
        for where, run in _runs(path, chosen):
            _note(found, run, where)
        if found.runs > n_before:
            found.files.append((member, path))
            found.scales.add(scale)
    return found


def _note(found: _Found, run: dict[str, Any], where: str) -> None:
    try:
        platform, environment, started = run["platform"], run["environment"], run["started_at_utc"]
    except KeyError as error:
        raise BadInput(f"{where}: {error} is missing; a run has one.") from error
    if found.platform not in (None, platform):
        raise BadInput(
            f"{where} is of another platform than the runs before it; a bundle has the runs of one: keep the run files "
            "of each machine in a results folder of its own, and name it by TMFLOW_RESULTS_DIR."
        )
    found.runs += 1
    found.platform = platform
    if started >= found.newest:
        found.newest, found.environment = started, environment


def _runs(path: Path, chosen: Chosen) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, line in lines.lines(path, lines.contents(path)):
        run = lines.decoded(line, where)
        if chosen.evidence in (None, run.get("evidence")):
            yield where, run


def _contents(results: Path, found: _Found, chosen: Chosen, config: Path | None) -> dict[str, Content]:
    """What becomes of each member of the bundle, by its name."""
    platform = {
        "environment": found.environment,
        "facts": found.platform,
        "name": display_name(found.platform or {}),
        "sha256": sha256_of(found.platform),
    }
    contents: dict[str, Content] = {format.PLATFORM: _text(canonical_json(platform).encode())}
    contents |= {member: _run_file(path, chosen) for member, path in found.files}
    if len(found.scales) == 1:
        contents |= _file(format.CAMPAIGN, results / "runs" / next(iter(found.scales)) / "campaign.json")
    contents |= _file(format.PROBE, results / "probe.json")
    if config is not None:
        contents |= _file(format.CONFIG, config)
    for path in sorted((results / "logs").rglob("*")):
        member = f"logs/{path.relative_to(results / 'logs').as_posix()}"
        if path.is_file() and format.is_known(member):
            contents |= _file(member, path, MAX_LOG)
    return contents


def _text(data: bytes) -> Content:
    return lambda: iter([data])


def _file(member: str, path: Path, at_most: int = 0) -> dict[str, Content]:
    """A file, or so much of its end; nothing where there is none."""
    if not path.is_file():
        return {}
    try:
        return {member: _text(path.read_bytes()[-at_most:])}
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error


def _run_file(path: Path, chosen: Chosen) -> Content:
    """The chosen lines of a run file, as they are."""
    if chosen.evidence is None:
        return lambda: iter([lines.contents(path)])
    return lambda: (
        f"{line}\n".encode()
        for where, line in lines.lines(path, lines.contents(path))
        if lines.decoded(line, where).get("evidence") == chosen.evidence
    )


def _entry(name: str, content: Content) -> Entry:
    sha256, n_bytes = hashlib.sha256(), 0
    for chunk in content():
        sha256.update(chunk)
        n_bytes += len(chunk)
    return Entry(name, n_bytes, sha256.hexdigest())


def _write(path: Path, contents: dict[str, Content], hashes: dict[str, str]) -> None:
    """LZMA makes run files half as large as deflating them does (docs/adr/0005)."""
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
