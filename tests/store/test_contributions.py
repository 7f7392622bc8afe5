"""Imported bundles: all or nothing, stored once however often they are imported, and invisible while withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import URL, Engine

from tests.store.schemas import contents
from tests.support.sample_bundles import PROBE, consistent, sample_bundle
from tests.support.sample_runs import CLUSTER, EMULATED, PLATFORM, sample_runs
from tmflow.base.errors import BadInput
from tmflow.contributions.importer import InvalidBundle, contributions, import_bundle, restore, withdraw
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store import engine, platform_queries, queries, run_detail, schema
from tmflow.store.ingest import Conflict, ingest, not_stored
from tmflow.store.run_filter import RESULTS, RunFilter

MACHINE = "synthetic-test-machine-8t"
ELSEWHERE = PLATFORM | {"cpu_model": "another test machine"}
ASKED: dict[str, Callable[[Engine], Any]] = {
    **{
        name: lambda reader, read=read: read(reader, RunFilter(statuses=["ok"]))
        for name, read in queries.TABLES.items()
    },
    "counts": queries.counts,
    "origins": queries.origins,
    "revision": queries.revision,
    "newest definitions": queries.runs,
    "definition": lambda reader: queries.definition(reader, "fig_4_1", "full", [MACHINE], joined=True),
    "search": lambda reader: queries.tally(reader, RunFilter()),
    "search by text": lambda reader: queries.tally(reader, RunFilter(text="not")),
    "page": lambda reader: queries.page(reader, RunFilter()),
    "page by time": lambda reader: queries.page(reader, RunFilter(), "step_time"),
    "platforms": platform_queries.platforms,
    "settings": lambda reader: platform_queries.environments(reader, MACHINE, joined=True),
    "newest runs": lambda reader: platform_queries.newest_runs(reader, MACHINE, joined=True),
}


def ingested(url: URL, folder: Path, runs: list[Run]) -> Engine:
    ingest(url, [write_runs(folder, runs)])
    return engine.open_reader(url)


def write_runs(folder: Path, runs: list[Run]) -> Path:
    path = folder / f"{runs[0].campaign.uid}.jsonl"
    record.write(path, [consistent(run) for run in runs])
    return path


def answers(reader: Engine) -> dict[str, str]:
    """The answers as text, so that every difference shows."""
    found = {name: ask(reader) for name, ask in ASKED.items()}
    return {
        name: answer.to_csv() if isinstance(answer, pd.DataFrame) else str(answer) for name, answer in found.items()
    }


def test_a_bundle_is_stored_once_with_the_ids_of_its_runs(url: URL, tmp_path: Path) -> None:
    runs = sample_runs(strategies=("tf_lock", EMULATED))
    bundle = sample_bundle(tmp_path, runs)
    first = import_bundle(url, bundle)
    assert (first.runs_new, first.runs_known, first.withdrawn) == (len(runs), 0, None)
    before = contents(url)
    again = import_bundle(url, bundle)
    assert (again.identity, again.runs_new, again.runs_known) == (first.identity, 0, len(runs))
    assert contents(url) == before
    reader = engine.open_reader(url)
    assert set(queries.runs(reader)["uid"]) == {run.uid for run in runs}
    (answer,) = contributions(reader).to_dict("records")
    assert (answer["identity"], answer["name"], answer["version"]) == (first.identity, "bundle.zip", 1)
    assert (answer["n_runs"], answer["n_stored"], answer["platforms"]) == (
        len(runs),
        len(runs),
        "synthetic-test-machine-8t",
    )
    assert schema.check(url).ok


def test_a_bundle_gives_what_its_run_files_give(url: URL, tmp_path: Path) -> None:
    """By a single code path: every row is equal, except for its origin."""
    bundle = sample_bundle(tmp_path, sample_runs(strategies=("tf_lock", "stm", EMULATED), unsupported=("htm",)))
    import_bundle(url, bundle)
    other = engine.sqlite_url(tmp_path / "other.db")
    ingest(other, sorted((tmp_path / "results").rglob("*.jsonl")))
    by_import, by_ingest = contents(url), contents(other)
    assert len(by_import.pop("contribution")) == 1
    assert {row.pop("contribution_id") for row in by_import["run"]} == {1}
    assert by_ingest.pop("contribution") == []
    assert len(by_import.pop("probe")) == 1
    assert by_ingest.pop("probe") == []
    for tables in (by_import, by_ingest):
        for row in [*tables["run"], *tables["round_tally"]]:
            row.pop("contribution_id", None)
        for row in tables["run_file"]:
            row.pop("ingested_at_utc")
    assert by_import == by_ingest


def test_many_processes_bring_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that many runs share get new numbers."""
    bundle = sample_bundle(tmp_path, sample_runs(strategies=("tf_lock", "stm", EMULATED), rounds=7))
    urls = [engine.sqlite_url(tmp_path / f"{number}.db") for number in range(2)]
    import_bundle(urls[0], bundle)
    monkeypatch.setattr("tmflow.bundle.verify.WORTH_IT", 0)
    monkeypatch.setattr("tmflow.bundle.verify.cpus_allowed", lambda: 3)
    monkeypatch.setattr("tmflow.contributions.spool._REMEMBERED_BYTES", 2)
    import_bundle(urls[1], bundle)
    one, three = map(contents, urls)
    for tables in (one, three):
        for name, time in (("run_file", "ingested_at_utc"), ("contribution", "imported_at_utc")):
            for row in tables[name]:
                row.pop(time)
    assert one == three
    assert schema.check(urls[1]).ok


def test_runs_that_were_ingested_before_are_known_and_stay_when_it_is_withdrawn(url: URL, tmp_path: Path) -> None:
    own = sample_runs(rounds=2)
    more = [*own, *sample_runs(rounds=1, campaign="campaign-2", day=9)]
    reader = ingested(url, tmp_path, own)
    report = import_bundle(url, sample_bundle(tmp_path, more))
    assert (report.runs_new, report.runs_known) == (len(more) - len(own), len(own))
    assert withdraw(url, report.identity, "by mistake") == report.runs_new
    assert set(queries.runs(reader)["uid"]) == {run.uid for run in own}
    assert schema.check(url).ok


def test_a_withdrawn_contribution_is_as_if_it_had_never_been(url: URL, tmp_path: Path) -> None:
    """For all queries: runs of a separate platform and definition, and runs among others in a round."""
    own = sample_runs(rounds=1, unsupported=("htm",))
    theirs = [
        *sample_runs(rounds=1, campaign="campaign-2", day=9, batch=50),  # a later definition on our platform
        *sample_runs(("fig_4_4",), campaign="campaign-3", day=3),
        *sample_runs(("dist",), ("lock",), (2,), 1, campaign="campaign-5", day=4, **CLUSTER),
    ]
    in_a_round_of_theirs = sample_runs(
        rounds=1, campaign="campaign-2", day=9, batch=50, strategies=("nolock",), disturbed_rounds=(1,)
    )
    reader = ingested(url, tmp_path, own)
    before, revision = answers(reader), queries.revision(reader)
    report = import_bundle(url, sample_bundle(tmp_path, theirs))
    more = import_bundle(url, sample_bundle(tmp_path / "more", in_a_round_of_theirs))
    elsewhere = import_bundle(
        url, sample_bundle(tmp_path / "b", sample_runs(campaign="campaign-4", day=20, platform=ELSEWHERE, batch=10))
    )
    imported = answers(reader)
    assert {name for name in ASKED if imported[name] == before[name]} <= {
        "settings",
        "full",
        "search by text",
    }
    for identity in (report.identity, more.identity, elsewhere.identity[:8]):
        withdraw(url, identity, "the clock was wrong")
    hidden = answers(reader)
    assert hidden.pop("revision") != imported["revision"] != revision
    assert hidden == {name: answer for name, answer in before.items() if name != "revision"}
    assert queries.neighbours(reader, theirs[0].uid) == (None, None)
    with pytest.raises(BadInput, match=r"was withdrawn with contribution bundle\.zip: the clock was wrong\."):
        run_detail.run(reader, theirs[0].uid)
    assert run_detail.run(reader, own[0].uid)["uid"] == own[0].uid
    assert schema.check(url).ok
    assert import_bundle(url, tmp_path / "bundle.zip").withdrawn == "the clock was wrong"
    for identity in (report.identity, more.identity, elsewhere.identity):
        assert restore(url, identity) > 0
    assert answers(reader) == imported
    assert schema.check(url).ok


def test_what_ran_later_on_another_machine_hides_nothing_here(url: URL, tmp_path: Path) -> None:
    """Each platform shows the newest definition that was run there."""
    own = sample_runs(rounds=1)
    reader = ingested(url, tmp_path, own)
    theirs = sample_runs(rounds=1, campaign="campaign-2", day=9, batch=50, platform=ELSEWHERE)
    import_bundle(url, sample_bundle(tmp_path, theirs))
    shown = queries.runs(reader, replace(RESULTS, experiments=["fig_4_1"], scales=["full"]))
    assert set(shown["uid"]) == {run.uid for run in [*own, *theirs]}
    (key,) = set(shown["platform"]) - {MACHINE}
    assert queries.definition(reader, "fig_4_1", "full", [MACHINE]) == own[0].experiment.definition
    assert queries.definition(reader, "fig_4_1", "full", [key]) == theirs[0].experiment.definition


def test_contributed_rounds_are_none_of_a_study_here(url: URL, tmp_path: Path) -> None:
    import_bundle(url, sample_bundle(tmp_path, sample_runs()))
    reader = engine.open_reader(url)
    assert queries.rounds(reader).empty
    own = sample_runs(campaign="campaign-2", rounds=2)
    assert list(queries.rounds(ingested(url, tmp_path, own))["round"]) == [1, 2]


def test_an_ingest_makes_runs_that_a_bundle_brought_first_local_ones(url: URL, tmp_path: Path) -> None:
    """A withdrawal of the bundle therefore hides none of them, and they count as local runs."""
    own, theirs = sample_runs(rounds=2), sample_runs(rounds=1, campaign="campaign-2", day=9)
    report = import_bundle(url, sample_bundle(tmp_path, [*own, *theirs]))
    path = write_runs(tmp_path, own)
    assert not_stored(url, [path]) == [path]
    first, again = ingest(url, [path]), ingest(url, [path])
    assert (first.runs_new, first.runs_known, first.files_known) == (0, len(own), 0)
    assert (again.runs_new, again.runs_known, again.files_known) == (0, len(own), 1)
    assert not_stored(url, [path]) == []
    reader = engine.open_reader(url)
    local = queries.runs(reader)
    assert set(local.loc[local["platform"] == MACHINE, "uid"]) == {run.uid for run in own}
    assert list(queries.rounds(reader)["round"]) == [1, 2]
    assert withdraw(url, report.identity, "by mistake") == len(theirs)
    assert set(queries.runs(reader)["uid"]) == {run.uid for run in own}
    assert schema.check(url).ok


def test_the_very_run_file_of_a_bundle_can_be_ingested(url: URL, tmp_path: Path) -> None:
    bundle = sample_bundle(tmp_path, sample_runs(rounds=1))
    import_bundle(url, bundle)
    paths = sorted((tmp_path / "results").rglob("*.jsonl"))
    assert not_stored(url, paths) == paths
    assert ingest(url, paths).files_known == 0
    assert not_stored(url, paths) == []
    assert set(queries.runs(engine.open_reader(url))["platform"]) == {MACHINE}
    assert schema.check(url).ok


def test_a_bundle_adds_no_run_to_a_campaign_that_was_measured_here(url: URL, tmp_path: Path) -> None:
    """Such a run would take the place of one that this machine measures next, and keep it out for ever."""
    own = sample_runs(rounds=3)
    ingested(url, tmp_path, [run for run in own if run.round == 1])
    before = contents(url)
    with pytest.raises(
        BadInput, match=r"campaign campaign-1 was measured here; a bundle cannot add runs to it\. .*ingest"
    ):
        import_bundle(url, sample_bundle(tmp_path, [run for run in own if run.round <= 2]))
    assert contents(url) == before
    ingest(url, [write_runs(tmp_path, own)])
    assert import_bundle(url, sample_bundle(tmp_path / "all", own)).runs_new == 0


def test_runs_of_the_same_uid_and_other_content_are_named_and_nothing_is_stored(url: URL, tmp_path: Path) -> None:
    own = sample_runs()
    ingested(url, tmp_path, own)
    before = contents(url)
    changed = [run.model_copy(update={"setup_s": 0.125}) for run in (own[0], own[5])]
    new = sample_runs(campaign="campaign-2")
    with pytest.raises(Conflict, match=f"run {own[0].uid} differs from the run of the same uid in run file") as found:
        import_bundle(url, sample_bundle(tmp_path, [*new, *changed]))
    assert f"run {own[5].uid} differs" in str(found.value)
    assert str(found.value).count("differs") == len(changed)
    assert contents(url) == before


def test_a_point_that_another_run_has_is_refused(url: URL, tmp_path: Path) -> None:
    own = sample_runs(rounds=1)
    import_bundle(url, sample_bundle(tmp_path, own))
    before = contents(url)
    twin = own[0].model_copy(update={"uid": "another-run-of-it", "setup_s": 0.125})
    with pytest.raises(BadInput, match="each repeat of a point is run once in a round"):
        import_bundle(url, sample_bundle(tmp_path / "twin", [twin]))
    assert contents(url) == before


def test_a_bundle_that_is_not_sound_makes_no_database_and_its_report_has_all(sqlite: URL, tmp_path: Path) -> None:
    wrong = [run.model_copy(update={"started_at_utc": "yesterday"}) for run in sample_runs(rounds=1)]
    with pytest.raises(InvalidBundle, match="has errors:\n") as found:
        import_bundle(sqlite, sample_bundle(tmp_path, wrong))
    assert len(found.value.report.problems) >= len(wrong)
    assert not schema.exists(sqlite)
    assert not (tmp_path / "results" / "study.db").exists()


def test_machines_join_by_all_their_facts_alone(url: URL, tmp_path: Path) -> None:
    ingested(url, tmp_path, sample_runs(rounds=1))
    nearly = PLATFORM | {"some_new_fact": "another"}
    import_bundle(url, sample_bundle(tmp_path / "a", sample_runs(rounds=1, campaign="campaign-2")))
    import_bundle(url, sample_bundle(tmp_path / "b", sample_runs(rounds=1, campaign="campaign-3", platform=nearly)))
    reader = engine.open_reader(url)
    assert len(set(queries.runs(reader)["platform"])) == 3
    found = queries.runs(reader, replace(RESULTS, joined=True)).groupby("platform")["campaign_uid"].unique()
    assert {frozenset(campaigns) for campaigns in found} == {
        frozenset({"campaign-1", "campaign-2"}),
        frozenset({"campaign-3"}),
    }


def probe(day: int) -> dict[str, Any]:
    return PROBE | {"started_at_utc": f"2026-02-{day:02}T00:00:00.000Z"}


def _newest(reader: Engine, slug: str) -> dict[str, Any] | None:
    found = platform_queries.newest_probe(reader, slug, joined=True)
    return found and found.as_dict()


def test_the_newest_probe_of_a_platform_that_is_shown(url: URL, tmp_path: Path) -> None:
    slug = "synthetic-test-machine-8t"
    for day, campaign in ((5, "campaign-1"), (9, "campaign-2"), (7, "campaign-3")):
        runs = sample_runs(rounds=1, campaign=campaign)
        report = import_bundle(url, sample_bundle(tmp_path / campaign, runs, probe=probe(day)))
        if day == 9:
            newest = report.identity
    reader = engine.open_reader(url)
    assert _newest(reader, slug) == probe(9)
    withdraw(url, newest, "its clock was wrong")
    assert _newest(reader, slug) == probe(7)
    assert _newest(reader, "elsewhere") is None
    assert schema.check(url).ok


def test_a_probe_that_is_none_is_refused(url: URL, tmp_path: Path) -> None:
    schema.upgrade(url)
    before = contents(url)
    wrong = probe(5) | {"evidence": "guessed"}
    with pytest.raises(InvalidBundle, match=r"probe\.json: evidence is 'guessed'"):
        import_bundle(url, sample_bundle(tmp_path, sample_runs(rounds=1), probe=wrong))
    assert contents(url) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url, identity: withdraw(url, identity, "  "), "the reason of a withdrawal is empty"),
        (lambda url, identity: withdraw(url, "0" * 64, "why"), "no contribution has an identity that begins with '000"),
        (lambda url, identity: withdraw(url, identity[:7], "why"), "its first 8 hex digits or more"),
        (lambda url, identity: withdraw(url, "%" * 64, "why"), "its first 8 hex digits or more"),
        (restore, "is not withdrawn: its runs are shown"),
        (
            lambda url, identity: [withdraw(url, identity, "why") for _ in range(2)],
            r"contribution bundle\.zip is withdrawn already: why\.",
        ),
    ],
)
def test_what_cannot_be_withdrawn_or_restored(
    url: URL, tmp_path: Path, change: Callable[[URL, str], object], says: str
) -> None:
    identity = import_bundle(url, sample_bundle(tmp_path, sample_runs(rounds=1))).identity
    with pytest.raises(BadInput, match=says):
        change(url, identity)
