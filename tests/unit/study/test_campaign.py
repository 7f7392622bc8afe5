"""The campaign: an unfinished one is continued on the machine that began it; the next begins when there is work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmflow.study import campaign


def test_resumed_until_finished(tmp_path: Path) -> None:
    first = campaign.begin(tmp_path, "full")
    assert campaign.current(tmp_path, "full").uid == first.uid
    assert campaign.begin(tmp_path, "full").uid == first.uid
    campaign.close(tmp_path, "full")
    second = campaign.begin(tmp_path, "full")
    assert second.uid != first.uid
    campaign.end(tmp_path, second, finished=True)
    stored = campaign.load(tmp_path, "full")
    assert stored is not None
    assert stored.finished
    assert stored.invocations[-1].ended_at_utc


def test_scales_do_not_share_a_campaign(tmp_path: Path) -> None:
    assert campaign.latest_scale(tmp_path) == "full"
    full = campaign.begin(tmp_path, "full")
    quick = campaign.begin(tmp_path, "quick")
    assert full.uid != quick.uid
    assert campaign.current(tmp_path, "full").uid == full.uid
    assert campaign.latest_scale(tmp_path) == "quick"


def test_another_machine_begins_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = campaign.begin(tmp_path, "full")
    monkeypatch.setattr(campaign, "platform_facts", lambda: {"cpu_model": "another"})
    assert campaign.begin(tmp_path, "full").uid != here.uid


def test_set_aside(tmp_path: Path) -> None:
    assert campaign.set_aside(tmp_path, "full") is None
    begun = campaign.begin(tmp_path, "full")
    archive = campaign.set_aside(tmp_path, "full")
    assert archive == tmp_path / "runs" / "archive" / f"full-{begun.uid[:8]}"
    assert archive.is_dir()
    assert campaign.load(tmp_path, "full") is None
