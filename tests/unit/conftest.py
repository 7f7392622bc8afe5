"""Fixtures of the tests of claims: a database with runs for all claims."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, Connection

from tests.support.claim_worlds import CLAIMS, COMMITS, SPEED, only, set_world, world_runs
from tmflow.claims.origins import experiments
from tmflow.claims.tables import Tables, load
from tmflow.runfile import record
from tmflow.store import engine
from tmflow.store.ingest import ingest


@pytest.fixture(scope="session")
def claims_url(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A run for each round of each point that a claim uses."""
    folder = tmp_path_factory.mktemp("claims")
    record.write(folder / "runs.jsonl", world_runs(CLAIMS))
    url = engine.sqlite_url(folder / "study.db")
    ingest(url, [folder / "runs.jsonl"])
    return url


@pytest.fixture
def claims_db(claims_url: URL) -> Iterator[Connection]:
    """A transaction whose changes are visible only in it, and rolled back."""
    with engine.open_writer(claims_url).connect() as connection:
        yield connection
        connection.rollback()


@pytest.fixture(scope="session")
def true_world(claims_url: URL) -> dict[str, Tables]:
    """The tables of a world in which the claims of fig-4.1 hold."""
    with engine.open_writer(claims_url).connect() as connection:
        for name in (SPEED, COMMITS):
            set_world(connection, CLAIMS, CLAIMS.claims[name], "holds")
        tables = load(connection, experiments(only(SPEED)))
        connection.rollback()
    return tables
