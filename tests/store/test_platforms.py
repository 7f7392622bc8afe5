"""Queries about platforms: their results, their bounds, and the indexes that they use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy import URL, Engine

from tests.store.plans import asked
from tests.support.sample_runs import EMULATED, PLATFORM, sample_runs
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store import engine, platform_queries, queries, schema
from tmflow.store import platform_queries as circumstances
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RunFilter

SLUG = "synthetic-test-machine-8t"


@pytest.fixture
def store(url: URL, tmp_path: Path) -> Callable[..., Engine]:
    """Ingest runs and return a reader."""

    def store(*lots: list[Run]) -> Engine:
        for number, runs in enumerate(lots):
            record.write(tmp_path / f"{number}.jsonl", runs)
            ingest(url, [tmp_path / f"{number}.jsonl"])
        return engine.open_reader(url)

    return store


def two_machines() -> tuple[list[Run], list[Run]]:
    other = {"cpu_model": "other machine", "threads_logical": 16}
    return (
        sample_runs(strategies=("tf_lock", "lock", EMULATED), rounds=3),
        sample_runs(rounds=2, campaign="campaign-2", platform=other),
    )


def test_every_platform_has_a_row_with_its_facts(store: Callable[..., Engine]) -> None:
    found = platform_queries.platforms(store(*two_machines())).set_index("platform")
    assert set(found.index) == {SLUG, "other-machine-16t"}
    assert found.loc[SLUG, ["isa", "threads_logical", "tm_capability"]].tolist() == ["x86_64", 8, "none"]


def test_settings_are_those_of_one_platform(store: Callable[..., Engine]) -> None:
    reader = store(*two_machines())
    (row,) = platform_queries.environments(reader, SLUG).to_dict("records")
    assert (row["kernel"], row["governor"], row["cpus_allowed"]) == ("Linux 6.0.0", "performance", 8)
    assert pd.isna(row["tm_enabled"])
    assert platform_queries.environments(reader, "nowhere").empty


def test_the_newest_runs_are_those_of_one_platform_and_so_many(store: Callable[..., Engine]) -> None:
    here, there = two_machines()
    reader = store(here, there)
    found = platform_queries.newest_runs(reader, SLUG)
    assert set(found["uid"]) == {run.uid for run in here}
    assert found["started_at_utc"].is_monotonic_decreasing
    assert found.loc[found["evidence"] == "emulated", "loop_s"].isna().all()
    times = {run.uid: run.loop_s for run in here if run.evidence == "measured"}
    assert found[found["evidence"] == "measured"].set_index("uid")["loop_s"].to_dict() == times
    newest = platform_queries.newest_runs(reader, SLUG, at_most=4)
    pd.testing.assert_frame_equal(newest, found.head(4))
    assert platform_queries.newest_runs(reader, "nowhere").empty


def test_types_do_not_depend_on_rows(url: URL, store: Callable[..., Engine]) -> None:
    schema.upgrade(url)
    asked = (
        platform_queries.platforms,
        lambda reader: platform_queries.environments(reader, SLUG),
        lambda reader: platform_queries.newest_runs(reader, SLUG),
        queries.origins,
    )
    empty = [query(engine.open_reader(url)).dtypes for query in asked]
    full = [query(store(*two_machines())).dtypes for query in asked[:1]]
    full += [query(engine.open_reader(url)).dtypes for query in asked[1:]]
    for before, after in zip(empty, full, strict=True):
        pd.testing.assert_series_equal(before, after)


def test_hashes_and_slugs_lead_to_all_facts_that_were_recorded(store: Callable[..., Engine]) -> None:
    here, there = two_machines()
    reader = store(here, there)
    origins = queries.origins(reader, RunFilter())
    assert set(origins["uid"]) == {run.uid for run in [*here, *there]}
    facts = circumstances.platform_facts(reader, [SLUG, "nowhere"])
    assert facts == {SLUG: PLATFORM}  # also those without a column
    settings = circumstances.environment_facts(reader, origins["env_sha256"].unique())
    assert list(settings.values()) == [here[0].environment] * 2  # one for each platform
    (software,) = circumstances.software_facts(reader, origins["software_sha256"].unique()).values()
    assert software == here[0].software.model_dump()


def test_runs_are_found_by_uid(store: Callable[..., Engine]) -> None:
    here, there = two_machines()
    reader = store(here, there)
    uids = [here[0].uid, there[3].uid]
    found = queries.runs(reader, RunFilter(uids=uids))
    assert set(found["uid"]) == set(uids)
    assert queries.runs(reader, RunFilter(uids=[])).empty


def test_the_newest_runs_are_read_by_index_alone_and_not_sorted(sqlite: URL, tmp_path: Path) -> None:
    record.write(tmp_path / "0.jsonl", sample_runs())
    ingest(sqlite, [tmp_path / "0.jsonl"])
    reader = engine.open_reader(sqlite)
    with asked(reader) as plan:
        platform_queries.newest_runs(reader, SLUG, 10)
    assert any("SEARCH run USING INDEX ix_run_platform_id_started_at_utc (platform_id=?)" in step for step in plan), (
        plan
    )
    read = [step for step in plan if step != "SCAN contribution"]  # few: which of them are withdrawn
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in read), plan


def test_runs_by_uid_are_read_by_index_alone(sqlite: URL) -> None:
    """Settings and software of two runs, as the portal queries them for a comparison."""
    schema.upgrade(sqlite)
    reader = engine.open_reader(sqlite)
    with asked(reader) as plan:
        queries.origins(reader, RunFilter(uids=["one", "another"]))
    assert any("SEARCH run USING INDEX" in step and "(uid=?)" in step for step in plan), plan
    assert not any(step.startswith("SCAN") and step != "SCAN contribution" for step in plan), plan
