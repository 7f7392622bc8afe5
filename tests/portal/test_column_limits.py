"""For every possible content of a database, every page and command shows it or gives a reason in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from serving import APP
from sqlalchemy import Column
from streamlit.testing.v1 import AppTest

from tests.support.column_limits import Change, changed, columns, limits, make_database
from tests.support.column_readers import errors_of_commands, failures_of_commands, failures_of_readers, make_root
from tmflow.store import engine, queries
from tmflow.store.run_filter import RunFilter

COLUMNS = list(columns())
MOST_LIMITS = max(len(limits(column)) for column in COLUMNS)
# Pages with their queries; `uid` and `other` stand for runs.
PAGES: list[tuple[str, dict[str, str]]] = [
    ("overview", {}),
    ("figures", {}),
    ("explore", {"experiment": "study", "metric": "step_time"}),
    ("explore", {"experiment": "study", "metric": "raw_causes"}),
    ("explore", {"experiment": "full", "metric": "staleness"}),
    ("compare", {"experiment": "study"}),
    ("compare", {"a": "uid", "b": "other"}),
    ("advise", {}),
    ("trends", {"experiment": "full"}),
    ("claims", {}),
    ("claims", {"claim": "softmax-few-commits"}),
    ("platforms", {}),
    ("runs", {}),
    ("runs", {"run": "uid"}),
    ("contribute", {}),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("any"))


@pytest.fixture(scope="module")
def keys(database: Path) -> list[str]:
    """The platforms before any change."""
    source = engine.open_reader(engine.sqlite_url(database))
    return sorted(set(queries.counts(source)["platform"]))


@pytest.fixture(scope="module")
def uids(database: Path) -> pd.Series:
    return queries.runs(engine.open_reader(engine.sqlite_url(database)), RunFilter())["uid"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkout") / "root"
    make_root(path)
    return path


@pytest.mark.parametrize(
    "number",
    [pytest.param(at, marks=pytest.mark.deep if at else pytest.mark.slow) for at in range(MOST_LIMITS)],
)
def test_every_column_at_one_of_its_limits(number: int, database: Path, tmp_path: Path) -> None:
    """Several rows of each table at the same time: few values prevent the readers of other columns from running."""
    changes = [
        Change(column.table.name, column.name, place + at, of[number % len(of)])
        for at, column in enumerate(COLUMNS)
        for of in [limits(column)]
        for place in (0, 67, 131)
    ]
    assert changed(database, tmp_path / "changed.db", changes)
    assert list(failures_of_readers(tmp_path / "changed.db")) == []


def a_change(column: Column[object]) -> st.SearchStrategy[Change]:
    name = {"table": st.just(column.table.name), "column": st.just(column.name)}
    return st.builds(Change, **name, place=st.integers(0, 250), value=st.sampled_from(limits(column)))


CHANGES = st.lists(st.sampled_from(COLUMNS).flatmap(a_change), min_size=1, max_size=12)


class Shown:
    """All readers of a database whose values change."""

    def __init__(self, database: Path, root: Path, folder: Path, keys: list[str], uids: pd.Series) -> None:
        self.database, self.changed, self.site = database, folder / "changed.db", folder / "site"
        self.root, self.keys = root, keys
        self.uids = {"uid": str(uids.iloc[7]), "other": str(uids.iloc[8])}

    def failures(self, changes: Sequence[Change]) -> list[str]:
        made = changed(self.database, self.changed, changes)
        if not made:
            return []
        with self._reading(self.changed) as patch:
            found = list(failures_of_readers(self.changed))
            for page, query in PAGES:
                asked = {key: self.uids.get(value, value) for key, value in query.items()}
                found += self._failures_of_page(page, asked)
            self._in_root(patch)
            return [*found, *failures_of_commands(self.keys, self.site)]

    def errors(self) -> dict[str, BaseException | None]:
        """The errors of commands on the unchanged database."""
        with self._reading(self.database) as patch:
            self._in_root(patch)
            return errors_of_commands(self.keys, self.site)

    @contextmanager
    def _reading(self, database: Path) -> Iterator[pytest.MonkeyPatch]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TMFLOW_DB_URL", f"sqlite:///{database}")
            yield patch

    def _in_root(self, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("TMFLOW_ROOT", str(self.root))
        patch.setenv("TMFLOW_RESULTS_DIR", str(self.root / "results"))

    def _failures_of_page(self, page: str, query: dict[str, str]) -> list[str]:
        app = AppTest.from_file(str(APP), default_timeout=60)
        app.query_params.update(query)
        app.switch_page(f"views/{page}.py").run()
        return [f"{page} {query}: {error.message}" for error in app.exception]


@pytest.fixture
def shown(database: Path, root: Path, tmp_path: Path, keys: list[str], uids: pd.Series) -> Shown:
    return Shown(database, root, tmp_path, keys, uids)


@pytest.mark.deep
def test_the_commands_do_what_they_are_for(shown: Shown) -> None:
    """On the unchanged database: an error would hide what the tests below look for."""
    assert {name: error for name, error in shown.errors().items() if error} == {}


def random_limits(examples: int) -> settings:
    """The same examples every time; shrinking them takes too long."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        phases=(Phase.generate,),
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.deep
@random_limits(3)
@given(changes=CHANGES)
def test_random_columns_at_their_limits(changes: list[Change], shown: Shown) -> None:
    assert shown.failures(changes) == []
