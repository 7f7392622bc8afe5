"""The database as the pages see it: read only, read anew when it has changed, and plain words when it is missing."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
import streamlit as st
from sqlalchemy import URL

from tmflow.errors import BadInput
from tmflow.paths import results_dir
from tmflow.store import address, engine, queries, schema, stored

GET_STARTED = """
Run the study, small, in the folder of the project, then reload this page:

```
make quick
```

It builds the strategies, trains, and stores every run (at most 3 minutes). `make study` runs it in full;
`tmflow ingest` stores run files from another machine.
"""

Identity = tuple[object, ...]


class Study(NamedTuple):
    """A database and all its runs, whatever their status: of the newest definition of each experiment, and of any."""

    url: URL
    identity: Identity
    revision: str
    runs: pd.DataFrame
    all_runs: pd.DataFrame

    def curves(self, experiment: str, scale: str) -> pd.DataFrame:
        """As `queries.curves`."""
        return _curves(self.url, self.identity, experiment, scale)

    def transactions(self, experiment: str, scale: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """As `queries.transactions` and `queries.aborts`."""
        return _transactions(self.url, self.identity, experiment, scale)

    def run(self, uid: str) -> dict[str, Any]:
        """As `stored.run`."""
        return stored.run(engine.open_reader(self.url), uid)


def study_or_stop() -> Study:
    """The database; where it is missing, empty or unusable, say so and what to do, and end the page."""
    try:
        url = engine.url_from_env(results_dir() / "study.db")
        if not schema.exists(url):
            _nothing_yet(f"There are no results yet: there is no {address.shown(url)}.")
        identity = _identity(url)
        study = Study(url, identity, *_read(url, identity))
    except BadInput as error:
        st.error(str(error))
        st.stop()
    if study.all_runs.empty:
        _nothing_yet(f"There are no results yet: {address.shown(url)} holds no run.")
    return study


def _nothing_yet(what: str) -> None:
    st.info(what)
    st.markdown(GET_STARTED)
    st.stop()


def _identity(url: URL) -> Identity:
    """Which database this is and its state: file size and time, or what a server answers."""
    name = address.shown(url)
    if not address.is_sqlite(url):
        return name, queries.revision(engine.open_reader(url))
    path = address.sqlite_path(url)
    files = [path, path.with_name(path.name + "-wal")]
    stats = [file.stat() for file in files if file.exists()]
    return name, *((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


# A URL may hold a password, so its hash is not taken: `identity` stands for it.


@st.cache_data(show_spinner="Reading the database", max_entries=2)
def _read(_url: URL, identity: Identity) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    reader = engine.open_reader(_url)
    newest = queries.runs(reader, status=None)
    return queries.revision(reader), newest, queries.runs(reader, status=None, all_definitions=True)


@st.cache_data(show_spinner=False, max_entries=16)
def _curves(_url: URL, identity: Identity, experiment: str, scale: str) -> pd.DataFrame:
    return queries.curves(engine.open_reader(_url), experiment=experiment, scale=scale)


@st.cache_data(show_spinner=False, max_entries=16)
def _transactions(_url: URL, identity: Identity, experiment: str, scale: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    reader = engine.open_reader(_url)
    only: queries.Only = {"experiment": experiment, "scale": scale}
    return queries.transactions(reader, **only), queries.aborts(reader, **only)
