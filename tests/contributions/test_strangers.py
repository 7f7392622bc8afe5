"""The quarantine resists local users who can read or write in its folder."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest
from staged import staged

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.contributions import review
from tmflow.contributions.quarantine import RECEIVED, Quarantine
from tmflow.store.engine import sqlite_url


def test_another_bundle_in_the_place_of_one_that_was_checked_is_not_stored(
    quarantine: Quarantine, bundle: Path, tmp_path: Path
) -> None:
    identity = staged(quarantine, bundle).report.identity
    assert identity
    other = sample_bundle(tmp_path / "other", sample_runs(("another",)))
    shutil.copyfile(other, quarantine.file(identity))
    with pytest.raises(BadInput, match="it is another bundle"):
        review.accept(quarantine, sqlite_url(tmp_path / "study.db"), identity, "maintainer")
    assert not (tmp_path / "study.db").exists()


def test_what_waits_is_for_the_owner_alone(quarantine: Quarantine, bundle: Path) -> None:
    identity = staged(quarantine, bundle).report.identity
    assert identity
    assert stat.S_IMODE(quarantine.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(quarantine.file(identity).stat().st_mode) == 0o600


def test_a_link_in_the_folder_leads_nowhere(quarantine: Quarantine, bundle: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    quarantine.folder.mkdir()
    (quarantine.folder / RECEIVED).symlink_to(victim)
    staged(quarantine, bundle)
    assert victim.read_text() == "mine"


def test_only_what_is_the_quarantines_is_cleared_away(quarantine: Quarantine, bundle: Path) -> None:
    quarantine.folder.mkdir()
    (quarantine.folder / "notes.tmp").write_text("somebody else's")
    staged(quarantine, bundle)
    assert (quarantine.folder / "notes.tmp").exists()
