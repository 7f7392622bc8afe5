"""A killed import leaves all or nothing, and concurrent writers lose no run and see no lock."""

from __future__ import annotations

import multiprocessing
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.support.killing import kill_after, seconds_of
from tests.support.sample_bundles import consistent, sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.contributions.importer import contributions, import_bundle
from tmflow.runfile import record
from tmflow.store import engine, queries, schema
from tmflow.store.ingest import ingest
from tmflow.store.run_filter import RunFilter

KILLS = 50
WRITERS = 16
FORK = multiprocessing.get_context("fork")  # which has imported all that it needs; no connection stays open


@pytest.mark.deep
def test_an_import_that_is_killed_is_all_or_nothing(tmp_path: Path) -> None:
    own = tmp_path / "own.db"
    record.write(tmp_path / "own.jsonl", [consistent(run) for run in sample_runs()])
    ingest(engine.sqlite_url(own), [tmp_path / "own.jsonl"])
    theirs = sample_runs(("fig_4_1", "fig_4_4"), campaign="campaign-2", rounds=8)
    bundle = sample_bundle(tmp_path, theirs)
    path = tmp_path / "tries" / "study.db"
    url = engine.sqlite_url(path)
    import_it = partial(import_bundle, url, bundle)
    n_before, n_after = len(sample_runs()), len(sample_runs()) + len(theirs)

    def begin() -> None:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        shutil.copy(own, path)

    begin()
    whole_s = seconds_of(import_it)
    killed = 0
    for _ in range(KILLS):
        begin()
        seconds = random.uniform(0, 1.05) * whole_s
        if kill_after(seconds, import_it):
            killed += 1
        else:  # it takes less than while another process used the machine
            whole_s = min(whole_s, seconds)
        reader = engine.open_reader(url)
        found = len(queries.runs(reader, RunFilter(statuses=["ok"]))), len(contributions(reader))
        assert found in ((n_before, 0), (n_after, 1))
        state = schema.check(url)
        assert state.ok, state.problems
        report = import_it()
        assert (report.runs_new, report.runs_known) == ((len(theirs), 0) if found[1] == 0 else (0, len(theirs)))
    assert killed > KILLS // 2


@pytest.mark.slow
def test_writers_at_once_lose_no_run_and_see_no_lock(url: URL, tmp_path: Path) -> None:
    """Imports and ingests without a database, so they race to create it; all write some of the same runs and one
    bundle.
    """
    shared = tmp_path / "shared.jsonl"
    record.write(shared, [consistent(run) for run in sample_runs(campaign="campaign-shared", rounds=1)])
    both = [*sample_runs(campaign="campaign-shared", rounds=1), *sample_runs(campaign="campaign-contributed", rounds=1)]
    bundles = [sample_bundle(tmp_path / "shared", both)]
    work: list[Callable[[], object]] = []
    for writer in range(WRITERS):
        runs = sample_runs(campaign=f"campaign-{writer}", rounds=4)
        if writer % 2:
            bundles.append(sample_bundle(tmp_path / str(writer), runs))
            work.append(partial(_imports, url, [bundles[0], bundles[-1]]))
        else:
            record.write(path := tmp_path / f"{writer}.jsonl", [consistent(run) for run in runs])
            work.append(partial(_ingests, url, [shared, path]))
    writers = [FORK.Process(target=work_of_one) for work_of_one in work]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert {process.exitcode for process in writers} == {0}
    reader = engine.open_reader(url)
    per_round = len(sample_runs(rounds=1))
    assert len(queries.runs(reader, RunFilter(statuses=["ok"]))) == (4 * WRITERS + 2) * per_round
    assert len(contributions(reader)) == len(bundles)
    assert schema.check(url).ok


def _imports(url: URL, bundles: list[Path]) -> None:
    for bundle in bundles:
        import_bundle(url, bundle)


def _ingests(url: URL, files: list[Path]) -> None:
    for file in files:
        ingest(url, [file])
