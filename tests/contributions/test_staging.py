"""Bundles enter the quarantine completely or not at all, within limits, and every action is recorded."""

from __future__ import annotations

import fcntl
import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError
from staged import ADDRESS, Clock, done, files, killed_at_every_step, staged, study_beside

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.bundle.verify import verify
from tmflow.contributions import access, review, staging
from tmflow.contributions import quarantine as listed
from tmflow.contributions.importer import import_bundle
from tmflow.contributions.quarantine import Quarantine, Upload
from tmflow.runfile.record import Run


def test_a_good_bundle_waits_with_its_report(quarantine: Quarantine, bundle: Path) -> None:
    outcome = staged(quarantine, bundle)
    identity = verify(bundle).identity
    assert outcome.outcome == "staged"
    assert identity is not None
    (upload,) = listed.waiting(quarantine)
    assert (upload.identity, upload.name, upload.state) == (identity, bundle.name, "waiting")
    assert upload.report == verify(bundle).as_json()
    assert quarantine.file(identity).read_bytes() == bundle.read_bytes()
    assert files(quarantine) == {f"{identity}.zip"}
    assert done(quarantine) == [("upload", "staged", ADDRESS)]


def test_the_same_bundle_waits_once(quarantine: Quarantine, bundle: Path) -> None:
    staged(quarantine, bundle)
    again = staged(quarantine, bundle)
    assert again.outcome == "known"
    assert "waits for a maintainer already" in again.message
    assert len(listed.waiting(quarantine)) == 1


def test_a_bundle_with_a_problem_is_not_kept_and_its_report_names_no_file_of_ours(
    quarantine: Quarantine, bundle: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(bundle) as good, zipfile.ZipFile(broken, "w") as bad:
        for info in good.infolist():
            content = good.read(info)
            bad.writestr(info, content.replace(b"tf_lock", b"tf_lokc"))
    outcome = staged(quarantine, broken)
    assert outcome.outcome == "refused"
    assert outcome.report.problems
    said = " ".join(problem.sentence for problem in outcome.report.problems)
    assert "round-001.jsonl, line 1" in said
    assert str(quarantine.folder) not in said
    assert files(quarantine) == set()
    assert done(quarantine) == [("upload", "refused", ADDRESS)]


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_bundle_is_refused(quarantine: Quarantine, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    outcome = staged(quarantine, tmp_path / "x.zip")
    assert outcome.outcome == "refused"
    assert all(problem.sentence.startswith("x.zip ") for problem in outcome.report.problems)
    assert outcome.report.identity is None
    assert files(quarantine) == set()


def of_strategies(*names: str) -> list[Run]:
    """A part of the sample runs."""
    return [run for run in sample_runs() if run.spec.strategy in names]


def test_new_and_known_runs_are_counted_before_a_bundle_waits(
    quarantine: Quarantine, bundle: Path, tmp_path: Path
) -> None:
    outcome = staged(quarantine, bundle)
    assert outcome.message.startswith("27 runs, all of them new. The bundle waits")
    assert outcome.overlap
    assert outcome.overlap.experiments == [
        {"experiment": "fig_4_1", "scale": "full", "strategies": 3, "new": 27, "known": 0, "differing": 0}
    ]
    study = study_beside(quarantine)
    import_bundle(study, sample_bundle(tmp_path / "part", of_strategies("stm"), probe=None))
    more = sample_bundle(tmp_path / "more", of_strategies("stm", "tf_lock"), probe=None)
    assert staged(quarantine, more).message.startswith("18 runs: 9 new, 9 known already. The bundle waits")
    changed = [of_strategies("stm")[0].model_copy(update={"setup_s": 0.2})]
    differs = staged(quarantine, sample_bundle(tmp_path / "changed", changed, probe=None))
    assert differs.message.startswith("1 run: 0 new, 0 known already, 1 stored with other content. The bundle waits")


def test_a_bundle_of_known_runs_does_not_wait(quarantine: Quarantine, bundle: Path, tmp_path: Path) -> None:
    import_bundle(study_beside(quarantine), bundle)
    part = of_strategies("stm")
    outcome = staged(quarantine, sample_bundle(tmp_path / "part", part, probe=None))
    assert outcome.outcome == "known"
    assert outcome.message == "9 runs, all of them known already. Nothing is left for a maintainer to accept."
    assert listed.waiting(quarantine) == []
    assert files(quarantine) == set()
    probed = staged(quarantine, sample_bundle(tmp_path / "probed", part))
    assert probed.outcome == "staged"  # for its probe
    assert probed.overlap
    assert probed.overlap.new_probe


def test_a_file_that_is_too_large_is_not_read_to_its_end(
    quarantine: Quarantine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "UPLOAD_MIB", 2)
    source = io.BytesIO(bytes(10 * access.MIB))
    with pytest.raises(BadInput, match="larger than 2 MiB"):
        staging.stage(quarantine, source, "large.zip", ADDRESS, study_beside(quarantine))
    assert source.tell() == 3 * access.MIB
    assert files(quarantine) == set()
    assert done(quarantine) == [("upload", "refused", ADDRESS)]
    with pytest.raises(BadInput, match="larger than 2 MiB"):
        staging.receive(quarantine, ADDRESS, "large.zip", 3 * access.MIB)
    assert done(quarantine)[1:] == [("receive", "begun", ADDRESS), ("upload", "refused", ADDRESS)]


def test_a_bundle_of_too_many_runs_is_refused(
    quarantine: Quarantine, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_runs = verify(bundle).runs
    monkeypatch.setattr(access, "MOST_RUNS", n_runs - 1)
    with pytest.raises(BadInput, match=f"has {n_runs} runs, and the quarantine takes at most {n_runs - 1}"):
        staged(quarantine, bundle)
    assert files(quarantine) == set()
    monkeypatch.setattr(access, "MOST_RUNS", n_runs)
    assert staged(quarantine, bundle).outcome == "staged"


def test_no_more_wait_than_there_is_room_for(
    quarantine: Quarantine, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MOST_WAITING", 1)
    staged(quarantine, bundle)
    other = sample_bundle(tmp_path / "other", sample_runs(campaign="other"), probe=None)
    with pytest.raises(BadInput, match="wait for a maintainer already"):
        staged(quarantine, other)
    assert staged(quarantine, bundle).outcome == "known"  # it needs no space
    assert len(files(quarantine)) == 1


def test_one_bundle_is_looked_at_at_a_time(quarantine: Quarantine, bundle: Path) -> None:
    quarantine.folder.mkdir()
    with (quarantine.folder / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match="only one at a time"):
            staged(quarantine, bundle)
    assert staged(quarantine, bundle).outcome == "staged"


def test_a_conflict_is_kept_beside_what_is_stored(quarantine: Quarantine, bundle: Path) -> None:
    identity = staging.keep_conflict(quarantine, bundle, "user x", "run 1 is stored with another content")
    (upload,) = listed.waiting(quarantine)
    assert (upload.identity, upload.state) == (identity, "conflict")
    assert "run 1 is stored" in upload.sentence
    assert quarantine.file(identity).read_bytes() == bundle.read_bytes()
    assert done(quarantine) == [("import", "conflict", "user x")]


def test_a_conflict_that_was_rejected_is_not_kept_again(quarantine: Quarantine, bundle: Path) -> None:
    identity = staging.keep_conflict(quarantine, bundle, "user x", "run 1 differs.")
    review.reject(quarantine, identity, "the clock was wrong", "user y")
    with pytest.raises(BadInput, match=r"run 1 differs\. Nothing is stored\. The bundle was rejected at .*: the clock"):
        staging.keep_conflict(quarantine, bundle, "user x", "run 1 differs.")
    assert not listed.waiting(quarantine)
    assert not quarantine.file(identity).exists()


def test_the_audit_is_only_ever_added_to(quarantine: Quarantine, bundle: Path) -> None:
    staged(quarantine, bundle)
    for change in ("UPDATE audit SET outcome = 'x'", "DELETE FROM audit"):
        with pytest.raises(IntegrityError, match="only ever added to"), quarantine.begin() as connection:
            connection.execute(text(change))
    assert done(quarantine) == [("upload", "staged", ADDRESS)]


def test_the_audit_tells_when_what_and_of_which_bundle(quarantine: Quarantine, bundle: Path, clock: Clock) -> None:
    staged(quarantine, bundle)
    clock.forward(hours=1)
    staged(quarantine, bundle)
    first, second = listed.audit(quarantine, 10)
    assert (first["at_utc"], second["at_utc"]) == ("2026-01-31T12:00:00.000Z", "2026-01-31T13:00:00.000Z")
    assert first["identity"] == second["identity"] == verify(bundle).identity
    assert listed.audit(quarantine, 1) == [second]


def test_a_kill_at_any_step_leaves_nothing_half_written(quarantine: Quarantine, bundle: Path) -> None:
    identity = verify(bundle).identity
    steps = []
    for step in killed_at_every_step(quarantine.folder, lambda: staged(quarantine, bundle)):
        steps.append(step)
        for upload in listed.waiting(quarantine):
            whole = quarantine.file(upload.identity).read_bytes()
            assert whole == bundle.read_bytes()
        with quarantine.begin() as connection:
            hashes = connection.scalars(select(Upload.file_sha256)).all()
        assert hashes in ([], [hashlib.sha256(bundle.read_bytes()).hexdigest()])
        with quarantine.exclusive():  # when the next action of any kind begins
            assert files(quarantine) == ({f"{identity}.zip"} if hashes else set())
    assert len(steps) >= 5
    assert staged(quarantine, bundle).outcome == "known"
