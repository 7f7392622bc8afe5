"""A study's database for notebooks and scripts: `tmflow.open_study` and its charts. It only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from sqlalchemy import URL, Engine

from tmflow.analysis.run_table import Loaded, Records
from tmflow.analysis.versions import Versions
from tmflow.base.errors import BadInput, hint, unknown
from tmflow.charts import figures
from tmflow.charts.figures import DRAWINGS, Figure
from tmflow.claims.originals import load_originals
from tmflow.spec.trial import Status, TrialSpec
from tmflow.store import engine, queries, run_detail
from tmflow.store.frames import Source
from tmflow.store.run_filter import RESULTS, RunFilter, Value

Values = Value | Iterable[Value]
LISTED = 20  # names that an error lists


class Study:
    """The recorded runs of a database, selected by name."""

    def __init__(self, source: Engine, *, joined: bool = False, versions: Versions = "one") -> None:
        self.source, self.joined, self.versions = source, joined, versions

    def revision(self) -> str:
        """The revision of the data, 8 hex digits: cite it with a number."""
        return queries.revision(self.source)

    def counts(self) -> pd.DataFrame:
        """Count the runs, as `store.queries.counts`."""
        return queries.counts(self.source, joined=self.joined)

    def runs(
        self,
        *,
        experiment: str | None = None,
        scale: str | None = None,
        status: str | Sequence[str] | None = "ok",
        all_definitions: bool = False,
        **among: Values,
    ) -> pd.DataFrame:
        """One row for each run of any software version, with all factors, as `store.queries.runs`.

        status: one or several; None for all. among: one or several values of `platform` (the key, as in `counts`),
        `evidence` and any factor, such as strategy=["lock", "nolock"], threads=4. Raises BadInput for any other name,
        an unknown status, and an experiment, scale, platform or evidence without runs in the database.
        """
        only = replace(self._filter(experiment, scale, among), versions="all")
        statuses = [status] if isinstance(status, str) else status
        for name in statuses or ():
            if name not in get_args(Status):
                raise unknown("status", name, get_args(Status))
        return queries.runs(self.source, replace(only, statuses=statuses, newest_definitions=not all_definitions))

    def records(self, experiment: str, scale: str = "full", **among: Values) -> Loaded:
        """All tables for the figures of an experiment, of the study's `versions`; `among` and errors as for `runs`."""
        return queries.records(self.source, self._filter(experiment, scale, among))

    def summary(self, kind: str, experiment: str, scale: str = "full", **among: Values) -> pd.DataFrame:
        """The numbers of a kind of figure (a key of `figures.DRAWINGS`): estimates with 95 % intervals, and the rounds.

        They are of the study's `versions`; the column `runs_left_out` counts the runs of other versions.
        Empty if no run measured it. `among` and errors as for `runs`; raises BadInput also for an unknown kind.
        """
        if kind not in DRAWINGS:
            raise unknown("kind of figure", kind, DRAWINGS)
        only = self._filter(experiment, scale, among)
        return DRAWINGS[kind].summarise(LazyRecords(lambda name: queries.TABLES[name](self.source, only)))

    def figures(self, kind: str, experiment: str, scale: str = "full", **among: Values) -> dict[str, Figure]:
        """The figures of a summary, by the label of their panel; the label of a single panel is "".

        A notebook displays a figure; `figure.file("svg")` is its file; also "png", "csv", "json" and "vl.json".
        Figures that cannot be drawn are left out: the summary has the reason.
        """
        summary = self.summary(kind, experiment, scale, **among)
        published = load_originals().published_by(experiment)
        return dict(figures.figures_of(kind, summary, self.revision(), experiment, published(kind)))

    def run(self, uid: str) -> dict[str, Any]:
        """One run in full, in the layout of its run file. Raises BadInput if there is no such run."""
        return run_detail.run(self.source, uid)

    def _filter(self, experiment: str | None, scale: str | None, among: Mapping[str, Values]) -> RunFilter:
        """The filter of the results. Raises BadInput for a name that does not exist: an empty table would hide it."""
        factors = TrialSpec.model_fields
        for name in among:
            if name not in ("platform", "evidence", *factors):
                raise unknown("factor", name, ["platform", "evidence", *factors])
        named = {"experiment": experiment, "scale": scale}
        given: dict[str, Values] = {name: value for name, value in named.items() if value is not None}
        given |= {name: among[name] for name in ("platform", "evidence") if name in among}
        names = {name: list(map(str, _several(values))) for name, values in given.items()}
        held = self.counts()
        for name, values in names.items():
            valid = sorted(set(held[name]))
            for value in values:
                if value not in valid:
                    listed = ", ".join(valid[:LISTED]) + (", ..." if len(valid) > LISTED else "")
                    there = f"it holds {listed}" if valid else "it holds no run"
                    raise BadInput(f"the database has no runs of {name} '{value}'{hint(value, valid)}; {there}.")
            held = held[held[name].isin(values)] if values else held
        return replace(
            RESULTS,
            experiments=names.get("experiment"),
            scales=names.get("scale"),
            platforms=names.get("platform"),
            evidences=names.get("evidence"),
            factors={name: _several(among[name]) for name in factors if name in among},
            joined=self.joined,
            versions=self.versions,
        )


def _lazy_table(name: str) -> cached_property[pd.DataFrame]:
    return cached_property(lambda records: records.read(name))


class LazyRecords:
    """`Records` whose tables are read on first use by a function of the table's name."""

    def __init__(self, read: Callable[[str], pd.DataFrame]) -> None:
        self.read = read

    runs = _lazy_table("runs")
    curves = _lazy_table("curves")
    staleness = _lazy_table("staleness")
    transactions = _lazy_table("transactions")
    aborts = _lazy_table("aborts")
    full = _lazy_table("full")
    variables = _lazy_table("variables")
    phases = _lazy_table("phases")


def open_study(url_or_path: str | Path | URL, *, joined: bool = False, versions: Versions = "one") -> Study:
    """Open the study in a SQLite file or at an SQLAlchemy URL.

    joined: pool all sources of a platform, including contributions. versions: what summaries and figures show: the runs
    of one software version (`analysis.versions.origins` says which), or those of all versions, pooled.

    Raises BadInput if this tmflow cannot use the database, and for another value of `versions`.
    """
    if versions not in get_args(Versions):
        raise unknown("value of versions", versions, get_args(Versions))
    return Study(engine.open_reader(_url(url_or_path)), joined=joined, versions=versions)


def _url(url_or_path: str | Path | URL) -> URL:
    if isinstance(url_or_path, URL):
        return url_or_path
    is_url = isinstance(url_or_path, str) and "://" in url_or_path
    return engine.parse(str(url_or_path)) if is_url else engine.sqlite_url(Path(url_or_path))


def _several(values: Values) -> list[Value]:
    """Convert one or several values to Python types: a database would find no match for NumPy's."""
    listed = [values] if isinstance(values, str | int | float | np.generic) else values
    return [value.item() if isinstance(value, np.generic) else value for value in listed]


SCALES = ("full", "quick", "adhoc")  # in order of preference


class Note(str):
    """A sentence that a notebook displays as text."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


def experiments(database: Source, prefix: str = "") -> dict[str, str]:
    """The experiments of the database with this prefix, each with its preferred scale."""
    held = queries.counts(database)
    names = dict.fromkeys(name for name in held["experiment"] if name.startswith(prefix))
    return {name: min(set(held.loc[held["experiment"] == name, "scale"]), key=SCALES.index) for name in names}


def records(database: Source, experiment: str) -> Records | Note:
    """The records of an experiment at its preferred scale; without runs, a note on how to measure them."""
    scale = experiments(database).get(experiment)
    if scale is None:
        return Note(
            f"**There are no runs of `{experiment}` here.** `make study` measures them if config.yaml defines it."
        )
    return queries.records(database, replace(RESULTS, experiments=[experiment], scales=[scale]))


def drawn(database: Source, experiment: str, kinds: Sequence[str]) -> Iterator[Figure | Note]:
    """Yield the figures of an experiment, `kinds` of `figures.DRAWINGS`, and notes on those that cannot be drawn."""
    run_records = records(database, experiment)
    if isinstance(run_records, Note):
        yield run_records
        return
    revision = queries.revision(database)
    for kind in kinds:
        summary = DRAWINGS[kind].summarise(run_records)
        yield from (figure for _, figure in figures.figures_of(kind, summary, revision))
        for label, reasons in figures.gaps_of(kind, summary):
            what = ", ".join(filter(None, (kind.replace("_", " "), label)))
            yield Note(f"Not drawn for `{experiment}`: {what}: {'; '.join(reasons)}.")
