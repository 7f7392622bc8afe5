"""The bundles in contrib/ are valid, are imported with a study, and count for none of its rounds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.conftest import ROOT, TINY, Checkout, Tmflow
from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.base.canonical_json import sha256_of
from tmflow.bundle import format
from tmflow.bundle.reader import open_bundle
from tmflow.bundle.verify import verify
from tmflow.contributions.importer import contributions
from tmflow.runfile.record import ExperimentRef
from tmflow.store import engine, queries, rows
from tmflow.store.run_filter import RESULTS
from tmflow.study.config import load_study

MOST_BYTES = 8_000_000  # of a bundle in the repository: docs/add-your-hardware.md, contrib/README.md
BUNDLES = sorted((ROOT / "contrib").glob("*/*.zip"))


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_contribution_is_sound_and_in_the_folder_of_its_platform(path: Path) -> None:
    found = verify(path)
    assert found.ok, [problem.sentence for problem in found.problems]
    with open_bundle(path) as bundle:
        platform = bundle.document(format.PLATFORM)
    assert platform
    slug = rows.platform_row(platform["facts"])["slug"]
    assert path.parent.name == slug or path.parent.name.startswith(f"{slug}-")
    with open_bundle(next(path.parent.glob("*.zip"))) as first:
        assert first.document(format.PLATFORM)["facts"] == platform["facts"], "a folder is of one platform"


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_contribution_is_small_enough_for_the_repository(path: Path) -> None:
    assert path.stat().st_size <= MOST_BYTES
    for page in ("docs/add-your-hardware.md", "contrib/README.md"):
        assert f"at most {MOST_BYTES // 1_000_000} MB" in (ROOT / page).read_text()


@pytest.mark.slow
def test_a_study_stores_them_and_goes_on_as_without_them(
    tmp_path: Path, tmflow: Tmflow, checkout_at: type[Checkout]
) -> None:
    checkout = checkout_at(tmp_path / "checkout", TINY)
    definition = load_study(checkout.root / "config.yaml").definition("tiny", "full", "digits")
    reference = ExperimentRef(name="tiny", scale="full", definition_sha256=sha256_of(definition), definition=definition)
    runs = [run.model_copy(update={"experiment": reference}) for run in sample_runs(("tiny",), rounds=2)]
    folder = checkout.root / "contrib" / "synthetic-test-machine-8t"
    folder.mkdir(parents=True)
    sample_bundle(tmp_path / "theirs", runs).rename(folder / "bundle.zip")

    planned = tmflow("study", "run", "--dry-run", **checkout.variables)
    assert planned.returncode == 0, planned.stderr
    assert "contributions         1\n" in planned.stdout + planned.stderr
    mark = checkout.results / "ingested" / "contributions.json"
    done = tmflow("study", "run", str(mark.relative_to(checkout.root)), "--nolock", **checkout.variables)
    assert mark.exists(), done.stderr
    assert [report["runs_new"] for report in json.loads(mark.read_text())] == [len(runs)]
    reader = engine.open_reader(_database(checkout))
    assert len(contributions(reader)) == 1
    assert len(queries.runs(reader, replace(RESULTS, experiments=["tiny"], scales=["full"]))) == len(runs)
    assert queries.rounds(reader).empty
    status = json.loads(tmflow("study", "status", "--json", **checkout.variables).stdout)
    assert status["trials_ok"] == 0
    again = tmflow("study", "run", "--dry-run", **checkout.variables)
    assert again.returncode == 0
    assert "contributions  " not in again.stdout + again.stderr
    assert not (checkout.results / "runs" / "full" / "tiny").exists()


def _database(checkout: Checkout) -> URL:
    return engine.sqlite_url(checkout.results / "study.db")
