"""Run files are ingested completely, once, or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, func, select

from tests.support.sample_runs import CLUSTER, EMULATED, PLATFORM, SOFTWARE_TM, backend, sample_runs
from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store import engine, models, queries, run_detail, schema
from tmflow.store.ingest import IngestReport, ingest

Write = Callable[..., Path]


# Two of these exceed the column of their sum.
MANY_ABORTS = {
    "worker": 0, "variable": "W", "mechanism": "stm", "raw_code": "0x00000003", "family": "conflict", "n": 2**63 - 1
}  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write runs to a run file, by default to runs.jsonl, and return its path."""

    def write(runs: Sequence[Run], name: str = "runs.jsonl") -> Path:
        record.write(tmp_path / name, runs)
        return tmp_path / name

    return write


def changed(run: Run, **values: Any) -> Run:
    """The run with other values; a key such as `platform__l3_bytes` addresses a nested field."""
    whole = run.model_dump(mode="json")
    for key, value in values.items():
        *parts, last = key.split("__")
        place = whole
        for part in parts:
            place = place[part]
        place[last] = value
    return Run.model_validate(whole)


def count(url: URL, model: type[models.Base]) -> int:
    with engine.open_reader(url).connect() as connection:
        return connection.scalar(select(func.count()).select_from(model)) or 0


def test_every_run_comes_back_as_it_was(url: URL, write: Write) -> None:
    runs = sample_runs(experiments=("fig_4_1", "fig_4_7"), unsupported=("stm",), rounds=2)
    runs[0] = changed(runs[0], machine=None, dataset_sha256=None, curve=[], counters=[])
    report = ingest(url, [write(runs)])
    assert report == IngestReport(files=1, files_known=0, runs_new=len(runs), runs_known=0)
    reader = engine.open_reader(url)
    for run in runs:
        whole = run_detail.run(reader, run.uid)
        assert whole.pop("stored")["content_sha256"] == run.content_sha256
        assert Run.model_validate(whole) == run


def test_emulated_and_software_transactions_come_back_as_they_were(url: URL, write: Write) -> None:
    runs = sample_runs(strategies=(EMULATED, SOFTWARE_TM, "tle"), threads=(1, 2), rounds=2)
    runs[1] = changed(runs[1], backend=backend("intel-tsx-study", l1d_ways=12).model_dump())
    ingest(url, [write(runs)])
    reader = engine.open_reader(url)
    for run in runs:
        whole = run_detail.run(reader, run.uid)
        assert whole.pop("stored")["content_sha256"] == run.content_sha256
        assert Run.model_validate(whole) == run
    assert count(url, models.Backend) == 2
    assert {run.evidence for run in runs} == {"emulated", "measured"}
    assert {c.attempts for run in runs if run.spec.strategy == "tle" for c in run.counters} == {None}


def test_the_processes_and_phases_of_a_cluster_come_back_as_they_were(url: URL, write: Write) -> None:
    (run,) = sample_runs(strategies=("lock",), threads=(2,), rounds=1, **CLUSTER)
    killed = run.processes[-1].model_copy(update={"exit": -9, "loop_s": None, "host": "host-b"})
    run = run.model_copy(update={"processes": [*run.processes[:-1], killed]})
    ingest(url, [write([run])])
    whole = run_detail.run(engine.open_reader(url), run.uid)
    assert whole.pop("stored")["content_sha256"] == run.content_sha256
    assert Run.model_validate(whole) == run
    assert (count(url, models.Process), count(url, models.Phase)) == (4, 12)


def test_what_runs_share_is_stored_once(url: URL, write: Write) -> None:
    runs = sample_runs(rounds=3)
    ingest(url, [write(runs)])
    expected = {
        models.Platform: 1,
        models.Environment: 1,
        models.Software: 1,
        models.Campaign: 1,
        models.Experiment: 1,
        models.Round: 3,
        models.Spec: 9,
        models.Run: 27,
        models.AbortReason: 2,
    }
    assert {model: count(url, model) for model in expected} == expected


def test_again_changes_nothing(url: URL, write: Write) -> None:
    path = write(runs := sample_runs())
    ingest(url, [path])
    before = queries.revision(engine.open_reader(url))
    for paths in ([path], [path, path]):
        report = ingest(url, paths)
        assert report == IngestReport(len(paths), len(paths), 0, len(paths) * len(runs))
    assert queries.revision(engine.open_reader(url)) == before


def test_a_run_is_known_in_another_file_too(url: URL, write: Write) -> None:
    runs = sample_runs()
    ingest(url, [write(runs[:5], "part.jsonl")])
    report = ingest(url, [write(runs, "whole.jsonl"), write(runs[3:7], "other.jsonl")])
    assert report == IngestReport(files=2, files_known=0, runs_new=len(runs) - 5, runs_known=9)
    assert count(url, models.Run) == len(runs)
    assert run_detail.run(engine.open_reader(url), runs[0].uid)["stored"]["run_file"] == "part.jsonl"


def test_the_order_of_files_does_not_matter(url: URL, write: Write) -> None:
    old, new = sample_runs(rounds=1), sample_runs(rounds=1, campaign="campaign-2", day=1, batch=50)
    for runs, name in ((new, "new.jsonl"), (old, "old.jsonl")):
        ingest(url, [write(runs, name)])
    assert set(queries.runs(engine.open_reader(url))["campaign_uid"]) == {"campaign-2"}


class TestNothingIsWritten:
    """A bad file among good ones: one sentence that names the place, and the database is unchanged."""

    def refused(self, url: URL, paths: Sequence[Path], says: str) -> None:
        there = schema.exists(url)
        before = queries.revision(engine.open_reader(url)) if there else None
        with pytest.raises(BadInput, match=says) as caught:
            ingest(url, paths)
        assert "\n" not in str(caught.value)
        assert schema.exists(url) == there
        if there:
            assert queries.revision(engine.open_reader(url)) == before

    def test_cut_file(self, url: URL, write: Write) -> None:
        good, cut = write(sample_runs(), "good.jsonl"), write(sample_runs(campaign="campaign-2"), "cut.jsonl")
        cut.write_bytes(cut.read_bytes()[:-100])
        self.refused(url, [good, cut], r"cut\.jsonl is cut off in line 27")
        ingest(url, [good])
        self.refused(url, [cut], r"cut\.jsonl is cut off in line 27")

    def test_empty_file(self, url: URL, write: Write) -> None:
        good, empty = write(sample_runs(), "good.jsonl"), write([], "empty.jsonl")
        self.refused(url, [good, empty], r"run file .*empty\.jsonl is empty; a run file holds one run or more")

    def test_missing_file(self, url: URL, tmp_path: Path) -> None:
        self.refused(url, [tmp_path / "none.jsonl"], r"none\.jsonl cannot be read: No such file")

    def test_newer_version(self, url: URL, write: Write) -> None:
        path = write(sample_runs())
        path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2', 1))
        self.refused(url, [path], "line 1: schema version 2 is newer than 1")

    @pytest.mark.parametrize(
        ("values", "says"),
        [
            ({"evidence": "published"}, "line 2: evidence is 'published', which needs a reference"),
            (
                {"time_domain": "simulated"},
                "line 2: time_domain is 'simulated' where evidence is 'measured'; allowed: wall",
            ),
            ({"platform__l3_bytes": 0}, r"line 2: platform\.l3_bytes: Input should be greater than 0"),
            ({"platform__isa": None}, r"line 2: platform\.isa: Input should be a valid string"),
            ({"platform__tm_capability": "tsx"}, r"line 2: platform\.tm_capability: Input should be 'none', 'rtm'"),
            ({"environment__turbo": "on"}, r"line 2: environment\.turbo: Input should be a valid boolean"),
            ({"environment__aslr": 2**63}, r"line 2: environment\.aslr: Input should be less than"),
            ({"started_at_utc": "yesterday"}, "line 2: started_at_utc is 'yesterday', but should be an ISO 8601 time"),
            ({"started_at_utc": "2026-01-01T00:00:00+01:00"}, "line 2: started_at_utc is '2026-01-01T00:00:00.01:00'"),
            ({"campaign__created_at_utc": "2026-01-01"}, r"line 2: campaign\.created_at_utc is '2026-01-01'"),
            ({"experiment__definition": {}}, r"line 2: experiment\.definition_sha256 is .*, but the hash of the"),
            ({"curve": [{"iteration": 1, "elapsed_s": 1, "accuracy": 0}] * 2}, "line 2: curve has two entries for 1"),
            ({"counters": [{"worker": 0, "variable": "W", "updates": 1}] * 2}, "line 2: counters has two entries for"),
            ({"staleness": [{"worker": 0, "staleness": 0, "steps": 1}] * 2}, "line 2: staleness has two entries for"),
            (
                {"retries": [{"worker": 0, "variable": "W", "retries": 1, "sections": 1}] * 2},
                r"line 2: retries has two entries for \(0, 'W', 1\); one is allowed",
            ),
            ({"reads": [{"worker": 0, "variable": "W", "reads": 1, "torn": 0}] * 2}, "line 2: reads has two entries"),
            ({"lost": [{"variable": "W", "expected": 1, "lost": 0}] * 2}, "line 2: lost has two entries for W"),
            ({"aborts": [MANY_ABORTS, MANY_ABORTS | {"worker": 1}]}, "a value of the run files does not fit"),
            (
                {"order_seed": 99},
                "round 1 of experiment 'fig_4_1' in campaign campaign-1 has order_seed 99 in one run and 1 in another",
            ),
            (
                {"campaign__created_at_utc": "2025-01-01T00:00:00Z"},
                "campaign campaign-1 was created at 2025-01-01T00:00:00Z by one run and at 2026-",
            ),
            (
                {"platform": PLATFORM | {"cpu_model": "other"}},
                "campaign campaign-1 has runs of two machines, other-8t and synthetic-test-machine-8t, but a campaign",
            ),
            ({"environment__cpus_allowed": 0}, r"line 2: environment\.cpus_allowed: Input should be greater than 0"),
        ],
        ids=str,
    )
    def test_bad_value(self, sqlite: URL, write: Write, values: dict[str, Any], says: str) -> None:
        first, second, *_ = sample_runs(strategies=("stm",))
        ingest(sqlite, [write(sample_runs(campaign="campaign-0"), "good.jsonl")])
        self.refused(sqlite, [write([first, changed(second, **values)])], says)

    @pytest.mark.parametrize(
        ("values", "says"),
        [
            (
                {"backend__name": "ibm-power8"},
                r"line 1: backend\.name is 'ibm-power8', but the spec asks for profile 'in",
            ),
            ({"backend__config": {}}, r"line 1: backend\.config_sha256 is .*, but the hash of config is"),
            (
                {"evidence": "measured", "backend": None},
                "line 1: evidence is 'measured', but its spec has the provider emulated, which makes it emulated",
            ),
            (
                {"time_domain": "simulated"},
                "line 1: time_domain is 'simulated' where evidence is 'emulated'; allowed: wall",
            ),
            (
                {"evidence": "simulated", "backend__kind": "simulator"},
                "line 1: time_domain is 'wall' where evidence is 'simulated'; allowed: simulated",
            ),
            (
                {"evidence": "simulated", "time_domain": "simulated", "backend__kind": "simulator"},
                "backend intel-tsx-study 0.1.0 is of kind simulator in one run, emulator in another",
            ),
        ],
        ids=str,
    )
    def test_bad_emulation(self, url: URL, write: Write, values: dict[str, Any], says: str) -> None:
        ingest(url, [write(sample_runs(campaign="campaign-0", strategies=(EMULATED,)), "good.jsonl")])
        self.refused(url, [write([changed(sample_runs(strategies=(EMULATED,))[0], **values)])], says)

    def test_a_run_that_says_emulated_without_an_emulator(self, sqlite: URL, write: Write) -> None:
        path = write(sample_runs(strategies=("lock",)))
        path.write_text(path.read_text().replace('"evidence": "measured"', '"evidence": "emulated"', 1))
        self.refused(sqlite, [path], "line 1: the run: evidence 'emulated' needs a backend of kind 'emulator', and the")

    @pytest.mark.parametrize(
        ("values", "says"),
        [
            ({"environment__smt": 1}, r"line 2: environment\.smt: Input should be a valid boolean"),
            ({"platform__threads_logical": 8.0}, r"line 2: platform\.threads_logical: Input should be a valid integer"),
            ({"experiment__definition__odd": 1}, r"line 2: experiment\.definition_sha256 is .*, but the hash of the"),
            ({"spec__seed": False}, r"line 2: spec\.seed: Input should be a valid integer"),
        ],
        ids=str,
    )
    def test_what_equals_the_line_before_in_python_only(
        self, sqlite: URL, write: Write, values: dict[str, Any], says: str
    ) -> None:
        """True equals 1 and 1.0 in Python, but not in JSON."""
        definition = {"odd": True}
        run = changed(
            sample_runs()[0],
            experiment__definition=definition,
            experiment__definition_sha256=sha256_of(definition),
            environment__smt=True,
        )
        path = write([run, run])
        first, second = path.read_text().splitlines()
        line = json.loads(second)
        for key, value in values.items():
            *parts, last = key.split("__")
            place = line
            for part in parts:
                place = place[part]
            assert place[last] == value
            place[last] = value
        path.write_text(f"{first}\n{json.dumps(line)}\n")
        self.refused(sqlite, [path], says)

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            (math.nan, "line 2: NaN is not JSON"),
            (-math.inf, "line 2: -Infinity is not JSON"),
            ("\ud800", "line 2: a text is not Unicode"),
        ],
    )
    def test_what_json_cannot_say(self, sqlite: URL, write: Write, value: object, says: str) -> None:
        path = write(sample_runs(rounds=1))
        first, second, *_ = path.read_text().splitlines()
        line = json.loads(second)
        for place in (line["environment"], line["experiment"]["definition"]):
            place["odd"] = value
            path.write_text(f"{first}\n{json.dumps(line)}\n")
            self.refused(sqlite, [path], says)
            del place["odd"]

    @pytest.mark.parametrize(
        ("field", "value", "says"),
        [
            ("variable", "\ud800", "line 1: a text is not Unicode"),
            ("lock_held_s", "inf", r"line 1: counters\.0\.lock_held_s: Input should be a finite number"),
        ],
    )
    def test_what_json_cannot_say_in_a_list(self, sqlite: URL, write: Write, field: str, value: str, says: str) -> None:
        path = write(sample_runs(rounds=1)[:1])
        line = json.loads(path.read_text())
        line["counters"][0][field] = value
        path.write_text(json.dumps(line) + "\n")
        self.refused(sqlite, [path], says)

    def test_a_text_of_an_abort_that_is_not_unicode(self, sqlite: URL, write: Write) -> None:
        path = write(sample_runs(strategies=("stm",), threads=(2,), rounds=1))
        line = json.loads(path.read_text())
        line["aborts"][0]["raw_code"] = "\udc00"
        path.write_text(json.dumps(line) + "\n")
        self.refused(sqlite, [path], "line 1: a text is not Unicode")

    def test_value_that_the_database_cannot_hold(self, postgresql: URL, write: Write) -> None:
        run = sample_runs()[0]
        self.refused_after_upgrade(postgresql, write([changed(run, software__compiler="gcc\0")]))
        aborts = [MANY_ABORTS, MANY_ABORTS | {"worker": 1}]
        self.refused_after_upgrade(postgresql, write([changed(run, aborts=aborts)]))

    def refused_after_upgrade(self, url: URL, path: Path) -> None:
        schema.upgrade(url)
        self.refused(url, [path], "a value of the run files does not fit database postgresql://")

    def test_same_uid_other_content(self, url: URL, write: Write) -> None:
        run = sample_runs()[0]
        other = changed(run, setup_s=99.0)
        schema.upgrade(url)
        self.refused(url, [write([run, other])], f"line 2: run {run.uid} differs from .* in run file .*, line 1")
        ingest(url, [write([run], "first.jsonl")])
        self.refused(
            url,
            [write([other], "second.jsonl")],
            rf"second\.jsonl, line 1: run {run.uid} differs from .* in run file first\.jsonl, stored",
        )

    def test_same_point_other_uid(self, url: URL, write: Write) -> None:
        run = sample_runs()[0]
        twin = changed(run, uid="another-uid")
        schema.upgrade(url)
        says = f"run another-uid has the campaign, experiment, round, spec and repeat of run {run.uid}"
        self.refused(url, [write([run, twin])], says)
        ingest(url, [write([run], "first.jsonl")])
        self.refused(url, [write([twin], "second.jsonl")], says)


def test_the_same_point_in_another_campaign_round_or_experiment_is_another_run(url: URL, write: Write) -> None:
    run = sample_runs()[0]
    definition = {"points": "others"}
    others = [
        changed(run, uid="uid-campaign", campaign__uid="campaign-2"),
        changed(run, uid="uid-round", round=9),
        changed(run, uid="uid-scale", experiment__scale="quick"),
        changed(run, uid="uid-name", experiment__name="fig_4_2"),
        changed(
            run,
            uid="uid-definition",
            experiment__definition=definition,
            experiment__definition_sha256=sha256_of(definition),
        ),
    ]
    assert ingest(url, [write([run, *others])]).runs_new == 6


def test_rollup_of_aborts_is_the_sum_over_threads(url: URL, write: Write) -> None:
    runs = sample_runs(strategies=("stm", "tf_lock"))
    ingest(url, [write(runs[:7], "a.jsonl")])
    ingest(url, [write(runs, "b.jsonl")])
    expected = {
        (run.uid, code): sum(abort.n for abort in run.aborts if abort.raw_code == code)
        for run in runs
        for code in {abort.raw_code for abort in run.aborts}
    }
    rollup = (
        select(models.Run.uid, models.AbortReason.raw_code, models.RunAbort.n)
        .join(models.RunAbort, models.RunAbort.run_id == models.Run.id)
        .join(models.AbortReason)
    )
    with engine.open_reader(url).connect() as connection:
        assert {(uid, code): n for uid, code, n in connection.execute(rollup)} == expected


def test_platforms_of_one_name_get_slugs_of_their_own(url: URL, write: Write) -> None:
    for number in range(3):
        runs = sample_runs(rounds=1, campaign=f"campaign-{number}", platform={"some_new_fact": number})
        ingest(url, [write(runs, f"{number}.jsonl")])
    slugs = list(queries.runs(engine.open_reader(url))["platform"].unique())
    assert len(set(slugs)) == 3
    assert all(slug.startswith("synthetic-test-machine-8t") for slug in slugs)
    assert "synthetic-test-machine-8t" in slugs


def test_only_the_name_of_a_file_is_kept(sqlite: URL, write: Write, tmp_path: Path) -> None:
    ingest(sqlite, [write(sample_runs(rounds=1))])
    assert str(tmp_path).encode() not in engine.sqlite_path(sqlite).read_bytes()
