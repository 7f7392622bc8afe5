"""Writes the runs of a results folder with their metadata as a bundle; equal content gives equal bytes."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.base.errors import BadInput, unknown
from tmflow.base.files import whole_file, writing
from tmflow.bundle import format, signature
from tmflow.bundle.format import Entry
from tmflow.platform.facts import display_name, slug
from tmflow.runfile import lines
from tmflow.store.run_filter import RunFilter

MAX_LOG = 64 * format.KIB  # bytes kept of the end of a log
AD_HOC = "adhoc"  # the scale of runs outside the study
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest date of the zip format
_REGULAR_FILE = 0o100644
_UNIX = 3


@dataclass(frozen=True)
class Exported:
    """A bundle that was written."""

    path: Path
    identity: str
    runs: int
    platform: str


Content = Callable[[], Iterator[bytes]]
"""A function that yields the bytes of a member."""


@dataclass
class _Selection:
    """The runs to export: the content of their files by name, and their common metadata; the scales of the study."""

    runs: int = 0
    files: dict[str, Content] = field(default_factory=dict)
    scales: set[str] = field(default_factory=set)
    platform: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    newest: str = ""

    def add(self, run: dict[str, Any], where: str) -> None:
        try:
            platform, environment, started = run["platform"], run["environment"], run["started_at_utc"]
        except KeyError as error:
            raise BadInput(f"{where}: {error} is missing; a run has one.") from error
        if self.platform not in (None, platform):
            raise BadInput(
                f"{where} is of another platform than the runs before it; a bundle has the runs of one: keep the run "
                "files of each machine in a separate results folder, and name it by TMFLOW_RESULTS_DIR."
            )
        self.runs += 1
        self.platform = platform
        if started >= self.newest:
            self.newest, self.environment = started, environment


def export(
    results: Path, output: Path, run_filter: RunFilter, config: Path | None, signing_key: Path | None = None
) -> Exported:
    """Write the selected runs of a results folder as a bundle; if `output` is a folder, under a generated name.

    run_filter: run files are selected by experiments, scales and evidences; the filter has no other condition.
    config: the study's config.yaml, if its runs are exported. signing_key: an OpenSSH key for a signature. Raises
    BadInput, and writes nothing, if there is nothing to export, the key cannot sign, the runs are from several
    platforms, or a file is damaged or changes meanwhile.
    """
    only = RunFilter(run_filter.experiments, run_filter.scales, evidences=run_filter.evidences)
    if run_filter != only:
        raise ValueError(f"run files are selected by experiments, scales and evidences, not by {run_filter}")
    selection = _select_runs(results, run_filter)
    if (facts := selection.platform) is None or selection.environment is None:
        raise BadInput(f"nothing to export: no run in {results / 'runs'} matches the request.")
    name = display_name(facts)
    platform = {"environment": selection.environment, "facts": facts, "name": name, "sha256": sha256_of(facts)}
    contents = selection.files | _other_files(results, selection.scales, config)
    contents[format.PLATFORM] = _bytes(canonical_json(platform).encode())
    entries = [_entry(member, content) for member, content in contents.items()]
    data = format.text(entries)
    identity = format.identity(data)
    contents[format.MANIFEST] = _bytes(data)
    if signing_key is not None:
        contents[format.SIGNATURE] = _bytes(signature.sign(data, signing_key))
    if output.is_dir():
        output /= f"{slug(facts.get('cpu_model') or facts['isa'], facts.get('threads_logical'))}-{identity[:12]}.zip"
    with whole_file(output) as new, writing(output):
        _write(new, contents, {entry.path: entry.sha256 for entry in entries})
    return Exported(output, identity, selection.runs, name)


def _select_runs(results: Path, run_filter: RunFilter) -> _Selection:
    selection, folder = _Selection(), results / "runs"
    scales = ["*"] if run_filter.scales is None else run_filter.scales
    paths = sorted(path for scale in scales for path in folder.glob(f"{scale}/*/*/*.jsonl"))
    with_runs = {path.relative_to(folder).parts[1] for path in paths}
    without = next((name for name in run_filter.experiments or () if name not in with_runs), None)
    if with_runs and without is not None:
        raise unknown(f"experiment of the runs in {folder}", without, with_runs)
    for path in paths:
        scale, experiment, definition, name = path.relative_to(folder).parts
        if run_filter.experiments is not None and experiment not in run_filter.experiments:
            continue
        of_campaign = scale == AD_HOC  # which has a folder for each campaign, not for each definition
        member = f"runs/{experiment}/{definition.replace('-', '')[:12] if of_campaign else definition}/{name}"
        if not format.RUNS.fullmatch(member):
            raise BadInput(
                f"{path} is not a run file of a study, which are <scale>/<experiment>/<definition>/round-NNN.jsonl: "
                "move it elsewhere."
            )
        n_before = selection.runs
        for where, _, run in _selected(path, run_filter.evidences):
            selection.add(run, where)
        if selection.runs > n_before:
            selection.files[member] = _run_file(path, run_filter.evidences)
            if not of_campaign:
                selection.scales.add(scale)
    return selection


def _selected(path: Path, evidences: Collection[str] | None) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The selected lines of a run file, each with its position and its run."""
    for where, line in lines.lines(path, lines.contents(path)):
        run = lines.decoded(line, where)
        if evidences is None or run.get("evidence") in evidences:
            yield where, line, run


def _run_file(path: Path, evidences: Collection[str] | None) -> Content:
    """The selected lines of a run file, unchanged."""
    if evidences is None:
        return lambda: iter([lines.contents(path)])
    return lambda: (f"{line}\n".encode() for _, line, _ in _selected(path, evidences))


def _other_files(results: Path, scales: set[str], config: Path | None) -> dict[str, Content]:
    """The content of the campaign, the probe, the configuration and the logs that exist, by name."""
    paths = {format.PROBE: results / "probe.json"}
    if len(scales) == 1:
        paths[format.CAMPAIGN] = results / "runs" / min(scales) / "campaign.json"
    if config is not None:
        paths[format.CONFIG] = config
    logs = {f"logs/{path.relative_to(results / 'logs').as_posix()}": path for path in (results / "logs").rglob("*")}
    paths |= {member: path for member, path in logs.items() if format.is_allowed_name(member)}
    contents = {}
    for member, path in paths.items():
        if path.is_file():
            try:
                data = path.read_bytes()
            except OSError as error:
                raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
            contents[member] = _bytes(data[-MAX_LOG:] if member in logs else data)
    return contents


def _bytes(data: bytes) -> Content:
    return lambda: iter([data])


def _entry(member: str, content: Content) -> Entry:
    sha256, n_bytes = hashlib.sha256(), 0
    for chunk in content():
        sha256.update(chunk)
        n_bytes += len(chunk)
    return Entry(member, n_bytes, sha256.hexdigest())


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
