"""Ingest of run files: the only way into the database for local and contributed runs."""

from __future__ import annotations

import gc
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Connection, exists, select, update
from sqlalchemy.exc import DataError

from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.base.text import several
from tmflow.store import models, schema
from tmflow.store.engine import explain_errors, open_reader, open_writer, shown
from tmflow.store.rows import IncomingRun, chunks, read_files, weight
from tmflow.store.writer import insert_runs, recount_rounds, shared_ids

NAMED = 5  # conflicts that are listed individually


class Conflict(BadInput):
    """Runs differ from runs with the same uid, which are stored or in the same call: sentences for the first."""

    def __init__(self, sentences: Sequence[str], number: int) -> None:
        more = f"; and {several(number - len(sentences), 'run')} more" if number > len(sentences) else ""
        super().__init__("; ".join(sentences) + f"{more}.")


class FileToStore(NamedTuple):
    """A run file, identified by the hash of its bytes; `n_runs` counts all its runs, stored ones included."""

    sha256: str
    name: str
    n_runs: int


class Stored(NamedTuple):
    """The result of storing runs; for known files, `runs_in_files` counts their runs at the time of storing."""

    files_new: int
    runs_in_files: int
    runs_new: int


@contextmanager
def storing(url: URL, what: str) -> Iterator[Connection]:
    """Open the only writing transaction; it is rolled back on an error.

    Raises BadInput for a database that cannot be used, and for a value that does not fit a column.
    """
    with explain_errors(url), open_writer(url).begin() as connection:
        try:
            yield connection
        except (OverflowError, DataError) as error:
            reason = str(error.orig if isinstance(error, DataError) else error).splitlines()[0]
            raise BadInput(f"a value of {what} does not fit {shown(url)}: {reason}.") from error


def store_runs(
    connection: Connection,
    files: Sequence[FileToStore],
    runs: Iterable[IncomingRun],
    contribution_id: int | None = None,
) -> Stored:
    """Store the runs that are not stored yet, a chunk at a time; each run belongs to one of the files.

    Local runs (without a contribution) take precedence: a local file turns a contributed run into a local one, and no
    contribution adds to a campaign that has local runs.

    Raises Conflict, after all runs are checked, if a uid has two contents. Raises BadInput if a point of a round
    already has a run, or if a contribution has a new run of a campaign that was measured here.
    """
    local = contribution_id is None
    stored_files = dict(connection.execute(select(models.RunFile.sha256, models.RunFile.n_runs)).tuples().all())
    done = _files_done(connection) if local else stored_files
    fresh = {file.sha256: file for file in files if file.sha256 not in done}
    now = utc_now()
    rows = [file._asdict() | {"ingested_at_utc": now} for file in fresh.values()]
    file_ids = dict(zip(fresh, shared_ids(connection, models.RunFile, ["sha256"], rows), strict=True))
    conflicts: list[str] = []  # the first few: a hostile bundle may have millions
    runs_new = n_conflicts = 0
    round_ids: set[int] = set()
    for chunk in chunks((run for run in runs if run.file_sha256 in fresh), weight):
        new, contradictions = _select_new(connection, chunk)
        conflicts += contradictions[: NAMED - len(conflicts)]
        n_conflicts += len(contradictions)
        if local:
            round_ids |= _make_local(connection, chunk, file_ids)
        else:
            _require_no_local_campaign(connection, new)
        round_ids |= insert_runs(connection, new, [file_ids[item.file_sha256] for item in new], contribution_id)
        runs_new += len(new)
    if conflicts:
        raise Conflict(conflicts, n_conflicts)
    recount_rounds(connection, round_ids)
    n_runs = {file.sha256: file.n_runs for file in files} | stored_files
    return Stored(len(fresh), sum(n_runs[file.sha256] for file in files), runs_new)


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Disable garbage collection: runs are many live objects, and scanning them takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _select_new(connection: Connection, incoming: Sequence[IncomingRun]) -> tuple[list[IncomingRun], list[str]]:
    """Return the runs that are not stored yet, each once, and a sentence for each run that contradicts another."""
    run, file = models.Run, models.RunFile
    uids = {item.uid for item in incoming}
    stored = select(run.uid, run.content_sha256, file.name).join(file).where(run.uid.in_(uids))
    seen = {uid: (content, f"run file {name}, stored") for uid, content, name in connection.execute(stored)}
    new, contradictions = [], []
    for item in incoming:
        if item.uid not in seen:
            seen[item.uid] = item.content_sha256, item.where
            new.append(item)
        content, where = seen[item.uid]
        if content != item.content_sha256:
            contradictions.append(f"{item.where}: run {item.uid} differs from the run of the same uid in {where}")
    return new, contradictions


def _make_local(connection: Connection, incoming: Sequence[IncomingRun], file_ids: Mapping[str, int]) -> set[int]:
    """Turn contributed runs that these files also hold into local runs; return the ids of their rounds.

    `file_ids` maps the hashes of the run files to their ids.
    """
    run = models.Run
    contributed = run.uid.in_({item.uid for item in incoming}) & run.contribution_id.is_not(None)
    round_of = dict(connection.execute(select(run.uid, run.round_id).where(contributed)).tuples().all())
    uids_by_file = defaultdict(list)
    for item in incoming:
        if item.uid in round_of:
            uids_by_file[file_ids[item.file_sha256]].append(item.uid)
    for file_id, uids in uids_by_file.items():
        connection.execute(update(run).where(run.uid.in_(uids)).values(contribution_id=None, run_file_id=file_id))
    return set(round_of.values())


def _require_no_local_campaign(connection: Connection, new: Sequence[IncomingRun]) -> None:
    """Raise BadInput for a contributed run of a local campaign: it would replace a run that is not measured yet."""
    tally = models.RoundTally
    local = (
        select(models.Campaign.uid)
        .join(models.Round)
        .join(tally)
        .where(models.Campaign.uid.in_({item.origin.run.campaign.uid for item in new}), tally.contribution_id == 0)
    )
    campaigns = set(connection.scalars(local))
    for item in new:
        if item.origin.run.campaign.uid in campaigns:
            raise BadInput(
                f"{item.where}: run {item.uid} is not stored here, but its campaign {item.origin.run.campaign.uid} was "
                "measured here; a bundle cannot add runs to it. If the run is yours, store its run file with "
                "`tmflow ingest`."
            )


@dataclass(frozen=True)
class IngestReport:
    """How many run files were given and how many were already stored; how many runs were new or stored."""

    files: int
    files_known: int
    runs_new: int
    runs_known: int


def ingest(url: URL, paths: Sequence[Path]) -> IngestReport:
    """Store the new runs of the files; on an error, store none.

    Creates the database if it does not exist. Raises BadInput for a bad file (before anything is written) or an
    unusable database, and Conflict for runs that contradict a stored run or another file.
    """
    with no_search_for_garbage():
        exists = schema.exists(url)
        incoming = read_files(paths, stored=_known_files(url) if exists else ())
        if not exists:
            schema.upgrade(url)
        with storing(url, "the run files") as connection:
            files = [FileToStore(file.sha256, file.name, len(file.runs)) for file in incoming]
            stored = store_runs(connection, files, (run for file in incoming for run in file.runs))
    return IngestReport(
        files=len(files),
        files_known=len(files) - stored.files_new,
        runs_new=stored.runs_new,
        runs_known=stored.runs_in_files - stored.runs_new,
    )


def not_stored(url: URL, paths: Sequence[Path]) -> list[Path]:
    """Select the run files that the database does not hold with the same bytes. Raises as `ingest` does."""
    hashes = _known_files(url) if schema.exists(url) else ()
    return [path for path in paths if hashlib.sha256(path.read_bytes()).hexdigest() not in hashes]


def _known_files(url: URL) -> set[str]:
    with explain_errors(url), open_reader(url).connect() as connection:
        return _files_done(connection)


def _files_done(connection: Connection) -> set[str]:
    """The hashes of the run files that an ingest can skip: they have stored runs, all of them local."""
    of_file = models.Run.run_file_id == models.RunFile.id
    contributed = exists().where(of_file, models.Run.contribution_id.is_not(None))
    done = select(models.RunFile.sha256).where(exists().where(of_file), ~contributed)
    return set(connection.scalars(done))
