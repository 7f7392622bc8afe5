"""The preview of a bundle says what its import then does."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.base.paths import project_root
from tmflow.claims.origins import verdicts
from tmflow.contributions.importer import import_bundle
from tmflow.reports.bundle_preview import preview
from tmflow.store import engine, queries

CLAIM = "stm-never-pays"


def shown(url: URL) -> dict[tuple[str, str], str]:
    """The verdict on each claim, by id and evidence."""
    return {(judged.id, judged.evidence): judged.finding.verdict for judged in verdicts(engine.open_reader(url))}


@pytest.mark.slow
def test_the_verdicts_are_those_after_the_import(tmp_path: Path) -> None:
    url = engine.sqlite_url(tmp_path / "study.db")
    import_bundle(url, sample_bundle(tmp_path / "first", sample_runs(campaign="other"), probe=None))
    (bundle,) = (project_root() / "contrib" / "intel-xeon-processor-4t").glob("*.zip")
    before = shown(url)
    made = preview(url, bundle, bundle.name)
    assert len(queries.runs(engine.open_reader(url))) == 27  # only read
    import_bundle(url, bundle)
    after = shown(url)
    changed = {key for key in before if before[key] != after[key]}
    assert (CLAIM, "measured") in changed
    assert {(it.claim, it.evidence) for it in made.changes if it.before != it.after} == changed
    for it in made.changes:
        assert (it.before, it.after) == (before[it.claim, it.evidence], after[it.claim, it.evidence])
    assert f"changes {len(changed)} of those shown" in made.sentence
    again = preview(url, bundle, bundle.name)
    assert again.overlap.is_known
    assert all(it.before == it.after for it in again.changes)


def test_a_bundle_is_previewed_without_a_database(tmp_path: Path) -> None:
    url = engine.sqlite_url(tmp_path / "missing.db")
    made = preview(url, sample_bundle(tmp_path / "made", sample_runs()), "mine.zip")
    assert made.overlap.sentence == "27 runs, all of them new."
    assert made.overlap.new_probe
    assert made.sentence == "The bundle's runs decide no claim."
    assert made.figure
    assert "contributed as mine.zip" in " ".join(made.figure.caption.lines)
    assert not (tmp_path / "missing.db").exists()
