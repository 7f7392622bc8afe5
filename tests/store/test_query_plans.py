"""SQLite's plans for the portal's queries: they use indexes, and scan no big table.

SQLite has no statistics here, so its plans do not depend on the number of runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, Select, select

from tests.store.plans import asked
from tests.support.sample_runs import EMULATED, FULL, sample_runs
from tmflow.runfile import record
from tmflow.store import engine, queries, run_detail
from tmflow.store.frames import fetch
from tmflow.store.ingest import ingest
from tmflow.store.models import Run
from tmflow.store.run_filter import RESULTS, RunFilter

OF_RUNS: dict[str, Callable[..., Any]] = {
    **queries.TABLES,
    "runs of status ok": lambda source, only: queries.runs(source, replace(only, versions="all")),
}
# Few, however many runs there are.
SMALL = {"abort_reason", "backend", "contribution", "experiment", "platform", "environment", "software"}
PLATFORM = "synthetic-test-machine-8t"
ONLY: dict[str, RunFilter] = {
    "a page": replace(RESULTS, experiments=["fig_4_1"], scales=["full"], platforms=[PLATFORM], evidences=["measured"]),
    "platforms side by side": replace(RESULTS, experiments=["fig_4_1"], scales=["full"], platforms=[PLATFORM, "other"]),
    "an experiment": replace(RESULTS, experiments=["fig_4_1"], scales=["full"]),
    "some settings of experiments": RunFilter(
        settings=[("fig_4_1", {"model": "mnist_softmax", "threads": 2}), ("beyond", {})],
        platforms=[PLATFORM],
        statuses=["ok"],
    ),
    "a platform": replace(RESULTS, platforms=[PLATFORM]),
    "a setting": replace(
        RESULTS,
        experiments=["fig_4_1"],
        platforms=[PLATFORM],
        factors={"model": ["mnist_softmax"], "strategy": ["tf_lock"], "threads": [2]},
    ),
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("plans")
    runs = [*sample_runs(strategies=("tf_lock", EMULATED)), *sample_runs(("beyond",), ("lock",), campaign="2", **FULL)]
    record.write(folder / "runs.jsonl", runs)
    url = engine.sqlite_url(folder / "study.db")
    ingest(url, [folder / "runs.jsonl"])
    return engine.open_reader(url)


def scanned(steps: list[str]) -> set[str]:
    """The tables that are scanned completely."""
    found = (re.match(r"SCAN (\w+)", step) for step in steps)
    return {match[1] for match in found if match and not match[1].startswith("anon_")}


@pytest.mark.parametrize("narrow", ONLY)
@pytest.mark.parametrize("name", OF_RUNS)
def test_only_the_rounds_that_have_such_runs_are_read(reader: Engine, name: str, narrow: str) -> None:
    with asked(reader) as steps:
        OF_RUNS[name](reader, ONLY[narrow])
    assert scanned(steps) <= SMALL, steps
    of_run = [step for step in steps if re.match(r"SEARCH run\b", step)]
    # The version of a sample depends on all its runs, also on those without the setting.
    assert len(of_run) == (2 if (name, narrow) == ("runs", "a setting") else 1)
    for step in of_run:
        assert re.fullmatch(r"SEARCH run USING INDEX \w+ \(round_id=\?( AND spec_id=\?)?\)", step)


def test_what_there_is_and_its_revision_are_told_without_a_look_at_the_runs(reader: Engine) -> None:
    with asked(reader) as steps:
        queries.counts(reader)
    assert not any(re.search(r"\brun\b", step) for step in steps), steps
    with asked(reader) as steps:
        queries.revision(reader)
    files, *withdrawn = steps
    assert files == "SCAN run_file USING COVERING INDEX sqlite_autoindex_run_file_1"
    assert scanned(withdrawn) <= SMALL


def test_which_rounds_there_are_is_told_by_a_run_of_each(reader: Engine) -> None:
    with asked(reader) as steps:
        queries.rounds(reader)
    (of_run,) = [step for step in steps if re.search(r"\brun\b", step)]
    assert re.fullmatch(r"SEARCH run USING INDEX \w+ \(round_id=\?\)", of_run)


def test_runs_are_found_by_their_uids(reader: Engine) -> None:
    (uid, *_) = queries.runs(reader)["uid"]
    with asked(reader) as steps:
        queries.runs(reader, RunFilter(uids=[uid]))
    assert scanned(steps) <= {"contribution"}, steps
    assert "SEARCH run USING INDEX sqlite_autoindex_run_3 (uid=?)" in steps


def test_one_run_is_found_with_all_its_details(reader: Engine) -> None:
    (uid, *_) = queries.runs(reader)["uid"]
    with asked(reader) as steps:
        run_detail.run(reader, uid)
    assert scanned(steps) == set(), steps


@pytest.mark.parametrize(
    ("which", "index"),
    [
        (select(Run.uid), "ix_run_started_at_utc"),
        (select(Run.uid).where(Run.status == "failed"), r"ix_run_status_started_at_utc \(status=\?\)"),
        (select(Run.uid).where(Run.platform_id == 1), r"ix_run_platform_id_started_at_utc \(platform_id=\?\)"),
    ],
    ids=["of all", "of a status", "of a platform"],
)
def test_the_newest_runs_are_read_in_their_order(reader: Engine, which: Select[tuple[str]], index: str) -> None:
    newest = which.order_by(Run.started_at_utc.desc(), Run.id.desc()).limit(50)
    with asked(reader) as steps:
        fetch(reader, newest)
    (step,) = steps
    assert re.fullmatch(rf"(SCAN|SEARCH) run USING INDEX {index}", step)
