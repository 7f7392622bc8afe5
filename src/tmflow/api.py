"""A study's database for notebooks and scripts: `tmflow.open_study` and its charts. It only reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from sqlalchemy import URL, Engine

from tmflow.analysis.experiment_records import Loaded, Records
from tmflow.base.errors import BadInput, hint, unknown
from tmflow.charts import figures
from tmflow.charts.figures import DRAWINGS, Figure
from tmflow.spec.trial import Status, TrialSpec
from tmflow.store import engine, queries, run_detail, url
from tmflow.store.frames import Source
from tmflow.store.queries import Only, Value

Values = Value | Iterable[Value]
LISTED = 20  # names that an error tells


class Study:
    """The recorded runs of a database, asked for by name."""

    def __init__(self, source: Engine, *, joined: bool = False) -> None:
        self.source, self.joined = source, joined

    def revision(self) -> str:
        """Which state of the data this is, in 8 hex digits: cite it with a number."""
        return queries.revision(self.source)

    def counts(self) -> pd.DataFrame:
        """How much there is of what, as `store.queries.counts`."""
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
        """One row for each run, with all its factors, as `store.queries.runs`.

        status: one or several; None for all. among: of `platform` (the key, as in `counts`), `evidence` and any factor
        one value or several, such as strategy=["lock", "nolock"], threads=4. Raises BadInput for a name that is none of
        these, for a status that there is not, and for an experiment, scale or platform that the database does not hold.
        """
        only = self._only(experiment, scale, among)
        only["all_definitions"] = all_definitions
        only["status"] = statuses = [status] if isinstance(status, str) else status
        for name in statuses or ():
            if name not in get_args(Status):
                raise unknown("status", name, get_args(Status))
        return queries.runs(self.source, **only)

    def records(self, experiment: str, scale: str = "full", **among: Values) -> Loaded:
        """All that figures of an experiment are made from; `among` and what is raised as for `runs`."""
        return queries.records(self.source, **self._only(experiment, scale, among))

    def summary(self, kind: str, experiment: str, scale: str = "full", **among: Values) -> pd.DataFrame:
        """The numbers of a kind of figure (a key of `figures.DRAWINGS`): estimates with 95 % intervals, and the rounds.

        Empty where no run measured it. `among` and what is raised as for `runs`; also for a kind that there is not.
        """
        if kind not in DRAWINGS:
            raise unknown("kind of figure", kind, DRAWINGS)
        return DRAWINGS[kind].summarise(_LazyRecords(self.source, self._only(experiment, scale, among)))

    def figures(self, kind: str, experiment: str, scale: str = "full", **among: Values) -> dict[str, Figure]:
        """The figures of such a summary, by the label of their panel: "" where there is one alone.

        A notebook shows a figure as it is; `figure.file("svg")`, also "png", "csv" and "vl.json", is the content of its
        file. What cannot be drawn is not there: the summary has the reason.
        """
        summary = self.summary(kind, experiment, scale, **among)
        return dict(figures.figures_of(kind, summary, self.revision(), experiment))

    def run(self, uid: str) -> dict[str, Any]:
        """One run in full, as its run file told it. Raises BadInput if there is no such run."""
        return run_detail.run(self.source, uid)

    def _only(self, experiment: str | None, scale: str | None, among: Mapping[str, Values]) -> Only:
        """What `queries` are asked for. Raises BadInput for a name that is not there: an empty table would say less."""
        factors = TrialSpec.model_fields
        for name in among:
            if name not in ("platform", "evidence", *factors):
                raise unknown("factor", name, ["platform", "evidence", *factors])
        only: Only = {"factors": {name: _several(among[name]) for name in factors if name in among}}
        only["joined"] = self.joined
        if experiment is not None:
            only["experiment"] = experiment
        if scale is not None:
            only["scale"] = scale
        if "platform" in among:
            only["platforms"] = [str(slug) for slug in _several(among["platform"])]
        if "evidence" in among:
            only["evidences"] = [str(kind) for kind in _several(among["evidence"])]
        self._require_known(only)
        return only

    def _require_known(self, only: Only) -> None:
        wanted = {
            "experiment": [only["experiment"]] if "experiment" in only else [],
            "scale": [only["scale"]] if "scale" in only else [],
            "platform": only.get("platforms", ()),
            "evidence": only.get("evidences", ()),
        }
        held = self.counts()
        for name, values in wanted.items():
            names = sorted(set(held[name]))
            for value in values:
                if value not in names:
                    listed = ", ".join(names[:LISTED]) + (", ..." if len(names) > LISTED else "")
                    there = f"it holds {listed}" if names else "it holds no run"
                    raise BadInput(f"the database has no runs of {name} '{value}'{hint(value, names)}; {there}.")
            held = held[held[name].isin(values)] if values else held


def _lazy_table(name: str) -> cached_property[pd.DataFrame]:
    return cached_property(lambda tables: queries.TABLES[name](tables.source, **tables.only))


class _LazyRecords:
    """`Records` whose tables are each read when they are asked for."""

    def __init__(self, source: Engine, only: Only) -> None:
        self.source, self.only = source, only

    runs = _lazy_table("runs")
    curves = _lazy_table("curves")
    staleness = _lazy_table("staleness")
    transactions = _lazy_table("transactions")
    aborts = _lazy_table("aborts")
    full = _lazy_table("full")


def open_study(url_or_path: str | Path | URL, *, joined: bool = False) -> Study:
    """The study in a SQLite file, or at any SQLAlchemy URL. Raises BadInput if it is none of this tmflow's.

    joined: the runs of all sources of a platform together, those of contributions too.
    """
    return Study(engine.open_reader(_url(url_or_path)), joined=joined)


def _url(url_or_path: str | Path | URL) -> URL:
    if isinstance(url_or_path, URL):
        return url_or_path
    is_url = isinstance(url_or_path, str) and "://" in url_or_path
    return url.parse(str(url_or_path)) if is_url else engine.sqlite_url(Path(url_or_path))


def _several(values: Values) -> list[Value]:
    """The values as a database takes them: one of NumPy's would be equal to none that it holds."""
    listed = [values] if isinstance(values, str | int | float | np.generic) else values
    return [value.item() if isinstance(value, np.generic) else value for value in listed]


SCALES = ("full", "quick", "adhoc")  # the fullest first


class Note(str):
    """A sentence that a notebook shows as text."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


def experiments(database: Source, prefix: str = "") -> dict[str, str]:
    """The experiments that the database holds whose names begin so, each with the fullest scale that it has."""
    held = queries.counts(database)
    names = dict.fromkeys(name for name in held["experiment"] if name.startswith(prefix))
    return {name: min(set(held.loc[held["experiment"] == name, "scale"]), key=SCALES.index) for name in names}


def records(database: Source, experiment: str) -> Records | Note:
    """What the runs of an experiment recorded, at its fullest scale; where there is none, how to get it."""
    scale = experiments(database).get(experiment)
    if scale is None:
        return Note(f"**There are no runs of `{experiment}` here.** `make study` makes them, if config.yaml has it.")
    return queries.records(database, experiment=experiment, scale=scale)


def drawn(database: Source, experiment: str, kinds: Sequence[str]) -> Iterator[Figure | Note]:
    """The figures of an experiment, `kinds` of `figures.DRAWINGS`; for what cannot be drawn, why."""
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
