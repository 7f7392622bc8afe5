"""Every claim of data/claims.yaml is reproduced where it holds, contradicted where it fails, and open at its border."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, Connection

from tests.claim_worlds import World, set_world, world_runs
from tmflow.claims.judge import Judged, experiments, judge
from tmflow.claims.schema import Claims, load_claims
from tmflow.claims.tables import load
from tmflow.runner import runfile
from tmflow.store import address, engine
from tmflow.store.ingest import ingest

CLAIMS = load_claims()
EXPECTED: dict[World, str] = {"holds": "reproduced", "fails": "contradicted", "borderline": "inconclusive"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A run for each round of each point that a claim looks at."""
    folder = tmp_path_factory.mktemp("claims")
    runfile.write(folder / "runs.jsonl", world_runs(CLAIMS))
    url = address.sqlite_url(folder / "study.db")
    ingest(url, [folder / "runs.jsonl"])
    return url


@pytest.fixture
def connection(database: URL) -> Iterator[Connection]:
    """A transaction whose changes are seen in it alone, and undone at the end."""
    with engine.open_writer(database).connect() as connection:
        yield connection
        connection.rollback()


def judged(connection: Connection, claims: Claims) -> dict[tuple[str, str], Judged]:
    verdicts = judge(claims, load(connection, experiments(claims)))
    return {(verdict.id, verdict.evidence): verdict for verdict in verdicts}


def only(name: str) -> Claims:
    return CLAIMS.model_copy(update={"claims": {name: CLAIMS.claims[name]}})


@pytest.mark.parametrize("world", EXPECTED)
@pytest.mark.parametrize("name", CLAIMS.claims)
def test_the_verdict_flips_with_the_world(connection: Connection, name: str, world: World) -> None:
    claim = CLAIMS.claims[name]
    set_world(connection, CLAIMS, claim, world)
    verdicts = judged(connection, only(name))
    for kind in {"measured", "emulated"} & set(claim.evidence):
        finding = verdicts[name, kind].finding
        assert finding.verdict == EXPECTED[world], finding.why
        assert (finding.more_rounds is not None) <= (world == "borderline")
        assert {number["rounds"] for number in finding.numbers} == {6}
