"""The database as the pages see it: read only, read anew when it has changed, and plain words when it is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import streamlit as st
from sqlalchemy import URL, Engine

from tmflow.base import escaping
from tmflow.base.errors import BadInput
from tmflow.base.paths import results_dir
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.portal import url_state
from tmflow.portal.url_state import Defaults, Key
from tmflow.store import engine, queries, schema
from tmflow.store import platform_queries as platforms
from tmflow.store import url as address
from tmflow.store.queries import Only

GET_STARTED = """
Run the study, small, in the folder of the project, then reload this page:

```
make quick
```

It builds the strategies, trains, and stores every run (some minutes). `make study` runs it in full;
`tmflow ingest` stores run files from another machine.
"""

JOINED_SOURCES = (
    "**Sources are joined**, as the link asks: the runs of contributions count as if they had been measured by whoever "
    "measured the rest of their platform. Nobody here has checked that. The pages of the menu show the sources apart."
)

Identity = tuple[object, ...]


class Study(NamedTuple):
    """A database as pages ask it: nothing reads more than a page shows, and answers are kept until the data changes."""

    url: URL
    identity: Identity
    """Which database this is, and its state."""
    revision: str
    counts: pd.DataFrame
    """As `queries.counts`: how much there is of what; not to be changed."""
    states: pd.Series
    """A hash of each row of the counts."""
    joined: bool = False
    """Whether the reader asked for the sources of each platform as one."""
    here: str | None = None
    """The key of the platform of this machine, if runs of it were ingested here."""

    @property
    def database(self) -> Identity:
        """Which one it is: its name, and of a file the file itself, whatever was added to it."""
        return self.identity[: 2 if address.is_sqlite(self.url) else 1]

    def state(self, **of: str) -> Identity:
        """What tells the runs with these values of columns of the counts from what they were: which database, and how
        many runs of what are shown, and since when. So an ingest of others changes nothing, nor does hiding them.
        """
        chosen = self.states
        for column, value in of.items():
            chosen = chosen[self.counts.loc[chosen.index, column] == value]
        return *self.database, self.joined, chosen.to_numpy().tobytes()

    @property
    def first(self) -> Defaults:
        """What the choice of a platform begins with: this machine, if it has runs."""
        return {Key.PLATFORM: [self.here]} if self.here is not None else {}

    def records(
        self, experiment: str, scale: str, platforms: Sequence[str], evidences: Sequence[str]
    ) -> SelectedRecords:
        """What the runs of an experiment's newest definition recorded, each table read when it is asked for."""
        # Of all platforms: which definition is the newest depends on them all.
        state = self.state(experiment=experiment, scale=scale)
        return SelectedRecords(self.url, state, experiment, scale, tuple(platforms), tuple(evidences), self.joined)

    @property
    def platform_names(self) -> dict[str, str]:
        """By their keys; of those that share a name, the keys, which tell them apart."""
        table = self.counts[["platform", "platform_name"]].drop_duplicates()
        alike = table["platform_name"].duplicated(keep=False)
        return dict(zip(table["platform"], table["platform_name"].mask(alike, table["platform"]), strict=True))

    def reader(self) -> Engine:
        """For what is asked once."""
        return engine.open_reader(self.url)


class SelectedRecords(NamedTuple):
    """`Records` of a selection."""

    url: URL
    state: Identity
    experiment: str
    scale: str
    platforms: tuple[str, ...]
    evidences: tuple[str, ...]
    joined: bool

    @property
    def runs(self) -> pd.DataFrame:
        return _table("runs", *self)

    @property
    def curves(self) -> pd.DataFrame:
        return _table("curves", *self)

    @property
    def staleness(self) -> pd.DataFrame:
        return _table("staleness", *self)

    @property
    def transactions(self) -> pd.DataFrame:
        return _table("transactions", *self)

    @property
    def aborts(self) -> pd.DataFrame:
        return _table("aborts", *self)

    @property
    def full(self) -> pd.DataFrame:
        return _table("full", *self)


@contextmanager
def troubles_told() -> Iterator[None]:
    """A database that cannot be used, or no longer while a page reads it, is told on the page, which ends there."""
    try:
        yield
    except BadInput as error:
        st.error(escaping.markdown(error))
        st.stop()


def study_or_stop() -> Study:
    """The database; where it is missing or empty, say so and what to do, and end the page.

    Raises BadInput where it cannot be used.
    """
    url_state.begin()
    joined = url_state.sources_joined()
    url = engine.url_from_env(results_dir() / "study.db")
    if not schema.exists(url):
        _nothing_yet(f"There are no results yet: there is no {address.shown(url)}.")
    identity = _identity(url)
    study = Study(url, identity, *_read(url, identity, joined), joined, _here(url, identity))
    if study.counts.empty:
        _nothing_yet(f"There are no results yet: {address.shown(url)} holds no run.")
    if joined:
        st.warning(JOINED_SOURCES, icon=":material/join:")
    return study


def sources_apart(study: Study) -> pd.DataFrame:
    """The counts of each source by itself, whatever the reader asked for."""
    return _read(study.url, study.identity, False)[1]


def _nothing_yet(what: str) -> None:
    st.info(escaping.markdown(what))
    st.markdown(GET_STARTED)
    st.stop()


def _identity(url: URL) -> Identity:
    """Which database this is and its state: file size and time, or what a server answers."""
    name = address.shown(url)
    if not address.is_sqlite(url):
        return name, queries.revision(engine.open_reader(url))
    path = address.sqlite_path(url)
    stats = [_stat(path), _stat(path.with_name(path.name + "-wal"))]
    inode = stats[0] and stats[0].st_ino
    return name, inode, *(stat and (stat.st_mtime_ns, stat.st_size) for stat in stats)


def _stat(path: Path) -> os.stat_result | None:
    """None where there is no such file, which may be so from one moment to the next."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


# A URL may hold a password, so its hash is not taken: `identity` stands for it.


# Kept as it is, for all sessions: nobody changes it.
@st.cache_resource(show_spinner="Reading the database", max_entries=2)
def _read(_url: URL, identity: Identity, joined: bool) -> tuple[str, pd.DataFrame, pd.Series]:
    reader = engine.open_reader(_url)
    counts = queries.counts(reader, joined=joined)
    return queries.revision(reader), counts, pd.util.hash_pandas_object(counts, index=False)


@st.cache_resource(show_spinner=False, max_entries=2)
def _here(_url: URL, identity: Identity) -> str | None:
    return platforms.local_platform(engine.open_reader(_url), platform_sha256(platform_facts()))


# Kept as it is, for all sessions: nobody changes a table.
@st.cache_resource(show_spinner="Reading the runs", max_entries=16)
def _table(
    name: str,
    _url: URL,
    state: Identity,
    experiment: str,
    scale: str,
    platforms: tuple[str, ...],
    evidences: tuple[str, ...],
    joined: bool,
) -> pd.DataFrame:
    only: Only = {"experiment": experiment, "scale": scale, "platforms": platforms, "evidences": evidences}
    return queries.TABLES[name](engine.open_reader(_url), **only, joined=joined)
