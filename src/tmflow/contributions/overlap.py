"""Counts which runs of a bundle the database has already, by experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd
from sqlalchemy import URL, select

from tmflow.base.canonical_json import sha256_of
from tmflow.bundle.problems import Report
from tmflow.bundle.reader import Bundle
from tmflow.bundle.verify import Checker, Work
from tmflow.contributions import access
from tmflow.store import schema
from tmflow.store.engine import explain_errors, open_reader
from tmflow.store.frames import Source, fetch, first, visible
from tmflow.store.models import Experiment, Probe, Round, Run, Spec
from tmflow.store.rows import chunks, rows_of

STATES = ("new", "known", "differing")


class RunKey(NamedTuple):
    """The identity and the content of a run of a bundle, and what it belongs to."""

    uid: str
    content_sha256: str
    experiment: str
    scale: str
    strategy: str


class Overlap(NamedTuple):
    """The runs of a bundle against a database: new, known, or differing (stored with other content).

    experiments: a row for each experiment and scale: experiment, scale, strategies (their number), and the number of
    runs in each of `STATES`. Withdrawn runs are known. new_probe: whether the database lacks the bundle's probe.
    """

    experiments: list[dict[str, Any]]
    new_probe: bool

    def total(self, state: str) -> int:
        """The number of runs in one of `STATES`."""
        return sum(row[state] for row in self.experiments)

    @property
    def is_known(self) -> bool:
        """Whether the database has everything that the bundle has."""
        return not (self.total("new") or self.total("differing") or self.new_probe)

    @property
    def sentence(self) -> str:
        """The totals as a sentence."""
        n_new, n_known, n_differing = map(self.total, STATES)
        total = n_new + n_known + n_differing
        runs = f"{total:,} run{'' if total == 1 else 's'}"
        if total in (n_new, n_known):
            return f"{runs}, all of them {'new' if n_new else 'known already'}."
        other = f", {n_differing:,} stored with other content" if n_differing else ""
        return f"{runs}: {n_new:,} new, {n_known:,} known already{other}."


def prepare_keys(bundle: Bundle, checker: Checker) -> Work[list[RunKey]]:
    """Prepare work that checks run files and returns the keys of their runs."""
    hashes = {entry.path: entry.sha256 for entry in bundle.manifest}

    def keys(member: str) -> tuple[Report, list[RunKey]]:
        report, of_runs = Report(), list[RunKey]()
        for where, read in checker.runs(member, report):
            if report.runs > access.MOST_RUNS:  # the bundle is refused: its keys need no memory
                continue
            run, sha256 = read.run, rows_of(read, where, hashes[member]).content_sha256
            of_runs.append(RunKey(run.uid, sha256, run.experiment.name, run.experiment.scale, run.spec.strategy))
        return report, of_runs

    return keys


def keys_in(source: Source) -> list[RunKey]:
    """The keys of the runs that a database shows."""
    columns = (Run.uid, Run.content_sha256, Experiment.name, Experiment.scale, Spec.strategy)
    statement = select(*columns).select_from(Run).join(Spec).join(Round).join(Experiment).where(visible())
    return [RunKey(*row) for row in fetch(source, statement)]


def compare(url: URL, keys: Iterable[RunKey], probe: dict[str, Any] | None) -> Overlap:
    """Compare the runs and the probe of a bundle with the database, which has no runs if it does not exist.

    Raises BadInput if the database cannot be used.
    """
    table = pd.DataFrame(keys, columns=list(RunKey._fields))
    content = table["uid"].map(stored_content(url, table["uid"]))
    table["new"] = content.isna()
    table["known"] = content == table["content_sha256"]
    table["differing"] = ~(table["new"] | table["known"])
    by_experiment = table.groupby(["experiment", "scale"], sort=True).agg(
        strategies=("strategy", "nunique"), **{state: (state, "sum") for state in STATES}
    )
    rows = by_experiment.reset_index().astype(object).to_dict("records")
    return Overlap(
        [{str(name): value for name, value in row.items()} for row in rows],
        new_probe=probe is not None and not _has_probe(url, probe),
    )


def stored_content(url: URL, uids: Iterable[str]) -> dict[str, str]:
    """The content hash of each of these runs that is stored, withdrawn or not, by uid."""
    content: dict[str, str] = {}
    if not schema.exists(url):
        return content
    with explain_errors(url), open_reader(url).connect() as connection:
        for batch in chunks(uids):
            rows = connection.execute(select(Run.uid, Run.content_sha256).where(Run.uid.in_(batch)))
            content |= dict(rows.tuples().all())
    return content


def _has_probe(url: URL, probe: dict[str, Any]) -> bool:
    return (
        schema.exists(url)
        and first(open_reader(url), select(Probe.id).where(Probe.sha256 == sha256_of(probe))) is not None
    )
