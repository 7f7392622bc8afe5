"""A maintainer's decisions about a bundle: accept, reject, or compare with the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL
from staged import ADDRESS, done, files, killed_at_every_step, staged

from tests.store.schemas import contents
from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.bundle.verify import verify
from tmflow.contributions import quarantine as listed
from tmflow.contributions import review
from tmflow.contributions.importer import import_bundle
from tmflow.contributions.quarantine import Quarantine
from tmflow.contributions.review import MISSING, differences
from tmflow.runfile.record import Run
from tmflow.store import engine, queries, schema
from tmflow.store.ingest import Conflict

MAINTAINER = "user maintainer"
NO_IDENTITIES = ("", "%", "zz", "{waiting:.7}", "{waiting}0", "{waiting}\n")


@pytest.fixture
def study(tmp_path: Path) -> URL:
    """An empty database of a study."""
    url = engine.sqlite_url(tmp_path / "study.db")
    schema.upgrade(url)
    return url


@pytest.fixture
def waiting(quarantine: Quarantine, bundle: Path) -> str:
    """The identity of a waiting bundle."""
    return staged(quarantine, bundle).report.identity or ""


def uids(url: URL) -> set[str]:
    return set(queries.runs(engine.open_reader(url))["uid"])


def other_version(runs: list[Run], uid: str) -> list[Run]:
    """The runs, one of them with a shorter set-up and a shorter curve."""
    return [run.model_copy(update={"setup_s": 0.2, "curve": run.curve[:1]}) if run.uid == uid else run for run in runs]


def test_what_waits_changes_no_byte_of_the_database(
    quarantine: Quarantine, bundle: Path, study: URL, tmp_path: Path
) -> None:
    before = (tmp_path / "study.db").read_bytes()
    identity = staged(quarantine, bundle).report.identity
    assert identity
    review.reject(quarantine, identity, "nobody knows this machine", MAINTAINER)
    assert (tmp_path / "study.db").read_bytes() == before


def test_an_accepted_bundle_is_in_the_database_and_stays_on_record(
    quarantine: Quarantine, waiting: str, bundle: Path, study: URL
) -> None:
    report = review.accept(quarantine, study, waiting[:12], MAINTAINER)
    assert (report.identity, report.name, report.runs_new) == (waiting, bundle.name, len(sample_runs()))
    assert uids(study) == {run.uid for run in sample_runs()}
    assert listed.waiting(quarantine) == []
    assert done(quarantine) == [("upload", "staged", ADDRESS), ("accept", "accepted", MAINTAINER)]
    with pytest.raises(BadInput, match=f"{waiting} was accepted at 2026-01-31T12:00:00.000Z already"):
        review.accept(quarantine, study, waiting, MAINTAINER)


def test_an_accepted_bundle_is_not_taken_again(quarantine: Quarantine, waiting: str, bundle: Path, study: URL) -> None:
    review.accept(quarantine, study, waiting, MAINTAINER)
    again = staged(quarantine, bundle)
    assert (again.outcome, "in the database already" in again.message) == ("known", True)


def test_a_rejected_bundle_is_gone_and_whoever_brings_it_again_is_told_why(
    quarantine: Quarantine, waiting: str, bundle: Path
) -> None:
    with pytest.raises(BadInput, match="a rejection needs a reason"):
        review.reject(quarantine, waiting, "  ", MAINTAINER)
    review.reject(quarantine, waiting, "no such machine", MAINTAINER)
    assert files(quarantine) == set()
    again = staged(quarantine, bundle)
    assert again.outcome == "refused"
    assert again.message.endswith("no such machine")
    assert files(quarantine) == set()
    assert [outcome for _, outcome, _ in done(quarantine)] == ["staged", "rejected", "refused"]


def test_an_identity_must_name_one_bundle_that_waits(quarantine: Quarantine, waiting: str, tmp_path: Path) -> None:
    nobodys = "0" * 12 if not waiting.startswith("0") else "1" * 12
    digits = "should be that of a waiting bundle, or its first 8 hex digits or more"
    for identity, said in ((nobodys, f"no bundles .* begins with '{nobodys}'"), *((x, digits) for x in NO_IDENTITIES)):
        with pytest.raises(BadInput, match=said):
            review.reject(quarantine, identity.format(waiting=waiting), "why", MAINTAINER)
    assert [upload.identity for upload in listed.waiting(quarantine)] == [waiting]


def test_a_conflict_stays_and_both_versions_are_told_where_they_differ(
    quarantine: Quarantine, waiting: str, study: URL, tmp_path: Path
) -> None:
    runs = sample_runs()
    uid = runs[3].uid
    import_bundle(study, sample_bundle(tmp_path / "stored", other_version(runs, uid), probe=None))
    before = contents(study)
    with pytest.raises(Conflict, match=uid):
        review.accept(quarantine, study, waiting, MAINTAINER)
    assert contents(study) == before
    (upload,) = listed.waiting(quarantine)
    assert upload.state == "conflict"
    assert uid in upload.sentence
    assert str(quarantine.folder) not in upload.sentence  # which pages show
    assert done(quarantine)[-1] == ("accept", "conflict", MAINTAINER)
    reader, file = engine.open_reader(study), quarantine.file(waiting)
    ((found, withdrawn, fields),) = differences(reader, file)
    assert (found, withdrawn) == (uid, None)
    assert [field.field for field in fields] == [
        *(f"curve.{point}.{what}" for point in (1, 2) for what in ("accuracy", "elapsed_s", "iteration")),
        "setup_s",
    ]
    assert fields[-1] == ("setup_s", "0.25", "0.2")
    assert {field.database for field in fields[:-1]} == {MISSING}
    assert list(differences(reader, file, uid)) == [(uid, None, fields)]
    assert list(differences(reader, file, runs[0].uid)) == []  # already stored, with equal content
    with pytest.raises(BadInput, match="the bundle has no run nope"):
        list(differences(reader, file, "nope"))


def test_what_the_database_refuses_goes_on_waiting(quarantine: Quarantine, waiting: str, tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database" * 100)
    with pytest.raises(BadInput, match="is not a SQLite database"):
        review.accept(quarantine, engine.sqlite_url(tmp_path / "no.db"), waiting, MAINTAINER)
    (upload,) = listed.waiting(quarantine)
    assert upload.state == "waiting"
    assert done(quarantine)[-1] == ("accept", "refused", MAINTAINER)


@pytest.mark.slow
def test_a_kill_at_any_step_of_a_decision_leaves_all_or_nothing(
    quarantine: Quarantine, waiting: str, study: URL, tmp_path: Path
) -> None:
    def decide() -> None:
        if listed.waiting(quarantine):
            review.accept(quarantine, study, waiting, MAINTAINER)

    everything = {run.uid for run in sample_runs()}
    n_kills = 0
    for _ in killed_at_every_step(tmp_path, decide):
        n_kills += 1
        assert uids(study) in (set(), everything)
        assert verify(quarantine.file(waiting)).ok
        if not listed.waiting(quarantine):
            assert uids(study) == everything
    assert n_kills >= 10
    assert uids(study) == everything
    assert schema.check(study).ok
