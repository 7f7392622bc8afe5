"""The database for the pages: read only, reloaded after changes, with instructions if it is missing."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import pandas as pd
import streamlit as st
from sqlalchemy import URL, Engine

from tmflow.analysis.versions import LEFT_OUT
from tmflow.api import LazyRecords
from tmflow.base.documents import kept
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root, results_dir
from tmflow.base.text import markdown
from tmflow.platform.facts import is_local, platform_facts, platform_sha256
from tmflow.portal import filter_widgets
from tmflow.portal.url_state import VERSIONS, Defaults, Key
from tmflow.reports import findings
from tmflow.store import engine, queries, schema
from tmflow.store import platform_queries as platforms
from tmflow.store.run_filter import RESULTS, RunFilter
from tmflow.study import config

GET_STARTED = """
Run the study at reduced size in the project's folder, then reload this page:

```
make quick
```

It builds the strategies, trains, and stores every run (a few minutes). `make study` runs the full study;
`tmflow ingest` stores run files from another machine.
"""

JOINED_SOURCES = (
    "**Sources are joined**, as the link asks: contributed runs are pooled with the other runs of their platform. "
    "Nobody has verified their origin. The pages of the menu keep the sources separate."
)

VERSION_NAMES = {"one": "one, as in claims", "all": "all, pooled"}

Identity = tuple[object, ...]


class Study(NamedTuple):
    """A database as pages use it: queries read only what a page shows, and are cached until the data changes."""

    url: URL
    identity: Identity
    """Which database this is, and its state."""
    revision: str
    counts: pd.DataFrame
    """As from `queries.counts`; do not modify it."""
    states: pd.Series
    """A hash of each row of the counts."""
    joined: bool = False
    """Whether the reader asked to pool the sources of each platform."""
    here: str | None = None
    """The key of this machine's platform, if its runs were ingested here."""
    contributed_here: tuple[str, ...] = ()
    """The keys of contributed runs of this machine."""

    @property
    def database(self) -> Identity:
        """The identity of the database: its name and, for a file, its inode; independent of added runs."""
        return self.identity[: 2 if engine.is_sqlite(self.url) else 1]

    def state(self, **of: str) -> Identity:
        """A cache key for the runs with these values in columns of the counts.

        It has the database and a hash of the matching counts (numbers of runs and dates), so adding or hiding other
        runs does not change it.
        """
        chosen = self.states
        for column, value in of.items():
            chosen = chosen[self.counts.loc[chosen.index, column] == value]
        return *self.database, self.joined, chosen.to_numpy().tobytes()

    @property
    def of_this_machine(self) -> list[str]:
        """The keys of this machine: of its own runs, then of contributed ones in the order of `measured_platforms`."""
        place = {key: number for number, key in enumerate(findings.measured_platforms(self.counts))}
        contributed = sorted(self.contributed_here, key=lambda key: place.get(key, len(place)))
        return [key for key in (self.here, *contributed) if key is not None]

    @property
    def first(self) -> Defaults:
        """The default of the platform filter: this machine, if it has runs."""
        keys = self.of_this_machine
        return {Key.PLATFORM: keys} if keys else {}

    def choose_records(
        self,
        experiment: str,
        scale: str,
        platforms: Collection[str],
        evidences: Collection[str],
        among: RunFilter = RESULTS,
    ) -> SelectedRecords:
        """Like `records`, but if there are several software versions, show the choice of pooling all of them."""
        of_one = self.records(experiment, scale, platforms, evidences, among)
        if not _leaves_out(of_one, of_one.key):
            return of_one
        chosen = filter_widgets.choose([VERSIONS], self.counts, VERSION_NAMES).one(Key.VERSIONS)
        only, state = of_one.key
        return of_one if chosen == "one" else SelectedRecords(self, replace(only, versions="all"), state)

    def records(
        self,
        experiment: str,
        scale: str,
        platforms: Collection[str],
        evidences: Collection[str],
        among: RunFilter = RESULTS,
    ) -> SelectedRecords:
        """The records of the runs of an experiment's newest definition and of the software version of claims.

        among: consider only these runs. Each table is read on first use.
        """
        # The state covers all platforms, because the newest definition depends on all of them.
        state = self.state(experiment=experiment, scale=scale)
        of_experiment = replace(among, experiments=(experiment,), scales=(scale,), joined=self.joined)
        # Tuples, so that pages share the cached tables whatever they pass.
        only = replace(of_experiment, platforms=tuple(platforms), evidences=tuple(evidences))
        return SelectedRecords(self, only, state)

    @property
    def platform_names(self) -> dict[str, str]:
        """The names of platforms by key; platforms that share a name are called by their key."""
        table = self.counts[["platform", "platform_name"]].drop_duplicates()
        shares_name = table["platform_name"].duplicated(keep=False)
        return dict(zip(table["platform"], table["platform_name"].mask(shares_name, table["platform"]), strict=True))

    @property
    def labels(self) -> dict[str, str]:
        """The names of platforms and the titles of experiments, by key and by id, for filters and tables."""
        return {**experiment_titles(), **self.platform_names}

    def reader(self) -> Engine:
        """An engine for queries that are not cached."""
        return engine.open_reader(self.url)


class SelectedRecords(LazyRecords):
    """The `Records` of a selection; its tables are cached."""

    def __init__(self, study: Study, only: RunFilter, state: Identity) -> None:
        super().__init__(lambda name: _table(name, study, only, state))
        self.key = (only, state)
        """A key for caches of what follows from these records."""
        self.versions = only.versions


# Cached apart from the table, which is large and not needed if the summary is still cached.
@st.cache_data(show_spinner=False, max_entries=256)
def _leaves_out(_records: SelectedRecords, key: Identity) -> bool:
    """Whether runs of other software versions are left out of the records."""
    return bool(_records.runs[LEFT_OUT].any())


@contextmanager
def report_errors() -> Iterator[None]:
    """Show BadInput, such as an unusable database, as an error on the page and stop the page."""
    try:
        yield
    except BadInput as error:
        st.error(markdown(error))
        st.stop()


def study_or_stop() -> Study:
    """Open the database; if it is missing or empty, show what to do and stop the page.

    Raises BadInput if it cannot be used.
    """
    study = find_study()
    if study is None:
        url = _url()
        reason = "holds no run" if schema.exists(url) else "does not exist"
        _nothing_yet(f"There are no results yet: {engine.shown(url)} {reason}.")
    return study


def find_study() -> Study | None:
    """Open the database; None if it is missing or empty. Raises BadInput if it cannot be used."""
    filter_widgets.begin()
    joined = filter_widgets.sources_joined()
    url = _url()
    if not schema.exists(url):
        return None
    identity = _identity(url)
    study = Study(url, identity, *_read(url, identity, joined), joined, *_keys_of_this_machine(url, identity))
    if study.counts.empty:
        return None
    if joined:
        st.warning(JOINED_SOURCES, icon=":material/join:")
    return study


def experiment_titles() -> dict[str, str]:
    """The titles of experiments by id; empty if config.yaml is unusable. Others are called by their id."""
    try:
        return planned_study(project_root() / "config.yaml").titles
    except BadInput:  # the page of figures, which needs the file, gives the reason
        return {}


def title_of_experiment(name: str) -> str:
    """The title of an experiment, or its id if config.yaml has none."""
    return experiment_titles().get(name, name)


@kept
def planned_study(path: Path) -> config.Study:
    """Load config.yaml. Raises BadInput if it is wrong or missing."""
    return config.load_study(path)


def database_state() -> Identity:
    """A cache key for what follows from all runs, if there are any. Raises BadInput as `find_study` does."""
    return _identity(_url())


def _url() -> URL:
    return engine.url_from_env(results_dir() / "study.db")


def counts_by_source(study: Study) -> pd.DataFrame:
    """The counts with sources kept separate, even if the reader asked to pool them."""
    return _read(study.url, study.identity, False)[1]


def _nothing_yet(what: str) -> NoReturn:
    st.info(markdown(what))
    st.markdown(GET_STARTED)
    st.stop()


def _identity(url: URL) -> Identity:
    """The database and its state: file size and time, or the revision that a server reports."""
    name = engine.shown(url)
    if not engine.is_sqlite(url):
        return name, queries.revision(engine.open_reader(url))
    path = engine.sqlite_path(url)
    stats: list[os.stat_result | None] = []
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            stats.append(file.stat())
        except FileNotFoundError:  # the file does not exist, or no longer exists
            stats.append(None)
    inode = stats[0] and stats[0].st_ino
    return name, inode, *(stat and (stat.st_mtime_ns, stat.st_size) for stat in stats)


# A URL may hold a password, so it is not hashed: `identity` replaces it in cache keys.


# Shared by all sessions without a copy: no caller modifies it.
@st.cache_resource(show_spinner="Reading the database", max_entries=2)
def _read(_url: URL, identity: Identity, joined: bool) -> tuple[str, pd.DataFrame, pd.Series]:
    reader = engine.open_reader(_url)
    counts = queries.counts(reader, joined=joined)
    return queries.revision(reader), counts, pd.util.hash_pandas_object(counts, index=False)


@st.cache_resource(show_spinner=False, max_entries=2)
def _keys_of_this_machine(_url: URL, identity: Identity) -> tuple[str | None, tuple[str, ...]]:
    """The keys of this machine's platform: that of local runs, if there are any, and those of contributed runs."""
    keys = platforms.keys_of_platform(engine.open_reader(_url), platform_sha256(platform_facts()))
    return next(filter(is_local, keys), None), tuple(key for key in keys if not is_local(key))


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Reading the runs", max_entries=16)
def _table(name: str, _study: Study, only: RunFilter, state: Identity) -> pd.DataFrame:
    return queries.TABLES[name](_study.reader(), only)
