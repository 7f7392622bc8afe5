"""Rules that every real run obeys: a run that breaks one rule is reported by that rule, with its field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.zips import bundled
from tests.support.sample_bundles import PROBE, consistent
from tests.support.sample_runs import CLUSTER, EMULATED, ENVIRONMENT, FULL, PLATFORM, sample_runs
from tmflow.base.canonical_json import canonical_json, sha256_of
from tmflow.bundle import format
from tmflow.bundle.problems import MAX_PROBLEMS, Problem, Report
from tmflow.bundle.rules.expectations import DIGITS_TO_TEST, Limits, expect
from tmflow.bundle.verify import verify
from tmflow.runfile import record
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec
from tmflow.training.synthetic import features, images

RunDocument = dict[str, Any]
Change = Callable[[RunDocument], object]
MACHINE = {
    "environment": ENVIRONMENT, "facts": PLATFORM, "name": "synthetic", "sha256": sha256_of(PLATFORM)
}  # fmt: skip


def valid_run(strategy: str | Mapping[str, Any] = "stm", **factors: Any) -> RunDocument:
    """A valid run, as a JSON document."""
    (run,) = sample_runs(strategies=[strategy], threads=(2,), rounds=1, **FULL | {"dataset": "mnist"} | factors)
    line: RunDocument = json.loads(record.to_line(consistent(run)))
    return line


def checked(path: Path, *runs: RunDocument, documents: Mapping[str, Any] | None = None) -> Report:
    """The report on a bundle of these runs, which are one round of one experiment."""
    members = {format.PLATFORM: MACHINE, format.PROBE: PROBE} | dict(documents or {})
    data = {name: canonical_json(document).encode() for name, document in members.items() if document is not None}
    lines = "".join(json.dumps(run, sort_keys=True) + "\n" for run in runs)
    path.write_bytes(bundled({**data, "runs/fig_4_1/0123456789ab/round-001.jsonl": lines.encode()}))
    return verify(path)


@pytest.mark.parametrize(
    "strategy",
    [
        "stm",
        "itm",
        "tle",
        "block_stm",
        "striped",
        "tf_lock",
        "nolock",
        {"strategy": "htm", "provider": "rtm"},
        EMULATED,
    ],
)
def test_good_runs(tmp_path: Path, strategy: str | Mapping[str, Any]) -> None:
    driver = {"driver": "session", "measures": "usual"} if strategy in ("tf_lock", "tle") else {}
    assert checked(tmp_path / "b.zip", valid_run(strategy, **driver)).problems == []


def in_days(days: int) -> str:
    """The time so many days from now, in the format of run files."""
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def idle_but_one(run: RunDocument) -> RunDocument:
    """The run with updates by the first worker only."""
    for counter in run["counters"]:
        counter["updates"] *= counter["worker"] == 0
    return run


# The change of a valid run of software transactions, the field of the problem, and its message.
BAD: list[tuple[Change, str, str]] = [
    (lambda r: r["counters"][0].update(attempts=479), "counters.0.attempts", "479 attempts on W, which ended in 475"),
    (lambda r: r["aborts"][1].update(n=2), "counters.0.attempts", "475 commits and 4 aborts: 479 in all"),
    (lambda r: r["aborts"].append(r["aborts"][0] | {"variable": "x"}), "aborts", "2 aborts on x, but no counter"),
    (lambda r: r["counters"][3].update(fallbacks=24), "counters.3", "500 updates of b are 500 critical sections, but"),
    (lambda r: r["counters"][0].update(variable="V"), "counters.0.variable", "mnist_softmax has no variable 'V'"),
    (lambda r: [c.update(updates=499, fallbacks=24) for c in r["counters"][::2]], "counters", "998 updates of W in"),
    (lambda r: r["staleness"][0].update(steps=1), "staleness", "steps in all, but 1000 iterations"),
    (lambda r: r["staleness"][0].update(worker=2), "staleness", "there is a worker 2, but threads is 2"),
    (lambda r: r["retries"][0].update(worker=1000), "retries", "there is a worker 1000"),
    (lambda r: r["lost"][0].update(expected=100), "lost.0.expected", "1000 updates of the 7840 elements of W are"),
    (
        lambda r: r["lost"][0].update(elements=7840, inconsistent=1),
        "lost.0.elements",
        "7840 elements, but under optimiser sgd W has no arrays beside it",
    ),
    (lambda r: r["lost"][0].update(variable="V"), "lost.0.variable", "mnist_softmax has no variable 'V'"),
    (lambda r: r.update(trial_seed=1), "trial_seed", "1 in round 1, but 0 + 1 - 1"),
    (lambda r: r["curve"].append(r["curve"][0] | {"iteration": 1000}), "curve", "4 points, but curve_points is 3"),
    (lambda r: r["curve"][1].update(elapsed_s=0.0), "curve.1", "is not beyond that of the point before it"),
    (lambda r: r["curve"][2].update(iteration=1001), "curve", "its last point is at iteration 1001 of 1000"),
    (lambda r: r["curve"][2].update(elapsed_s=9.0), "curve", "its last point is at 9.0 s, but loop_s is"),
    (lambda r: r.update(final_accuracy=0.12345), "final_accuracy", "is not a whole number of the 10000 test images"),
    (lambda r: r["curve"][0].update(accuracy=0.12345), "curve.0.accuracy", "is not a whole number"),
    (lambda r: r.update(started_at_utc="2025-12-31T00:00:00Z"), "started_at_utc", "is before its campaign began"),
    (lambda r: r.update(started_at_utc="2999-01-01T00:00:00Z"), "started_at_utc", "is in the future"),
    (lambda r: r.update(started_at_utc=in_days(2)), "started_at_utc", "is in the future"),
    (lambda r: r.update(started_at_utc="1970-01-01T00:00:00Z"), "started_at_utc", "is before its campaign began"),
    (lambda r: r.update(total_s=r["loop_s"] / 2), "total_s", "but setup, loop and evaluation take"),
    (lambda r: r.update(total_s=r["setup_s"] + r["loop_s"] + r["evaluation_s"] / 2), "total_s", "but setup, loop and"),
    (lambda r: idle_but_one(r).update(loop_s=6e-7, curve=[]), "loop_s", "the updates of one worker in less than"),
    (lambda r: r.update(loop_s=6e-7, curve=[]), "loop_s", "this machine cannot make the updates of one worker in less"),
    (lambda r: r["aborts"][0].update(mechanism="rtm"), "aborts.0.mechanism", "this run has transactions"),
    (lambda r: r["aborts"][0].update(family="capacity"), "aborts.0", "the code says 0x00000003, conflict"),
    (lambda r: r["aborts"][0].update(raw_code="0x3"), "aborts.0", "the code says 0x00000003, conflict"),
    (lambda r: r["aborts"][0].update(raw_code="nothing"), "aborts.0", "is not a hexadecimal number"),
    (lambda r: r["aborts"][0].update(raw_code="0x" + "1" * 5000), "aborts.0.raw_code", "has more than 64 bits"),
    (lambda r: r["experiment"].update(name="other"), "experiment.name", "'other' in a file of 'fig_4_1'"),
    (lambda r: r.update(round=2, trial_seed=1), "round", "2 in the file of round 1"),
    (lambda r: r["platform"].update(l1d_ways=4), "platform", "and those of platform.json"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "field", "said"), BAD, ids=[said for _, _, said in BAD])
def test_bad_run(tmp_path: Path, change: Change, field: str, said: str) -> None:
    run = valid_run()
    change(run)
    found = checked(tmp_path / "b.zip", run)
    (problem,) = [problem for problem in found.problems if problem.field == field]
    assert said in problem.text
    assert (problem.line, problem.uid, problem.severity) == (1, run["uid"], "error")
    assert not found.ok


def extra(run: RunDocument, role: str, index: int) -> RunDocument:
    """The run with another process of this role."""
    run["processes"].append(run["processes"][0] | {"role": role, "index": index})
    return run


# The change of a valid run of 2 servers and 2 workers, the field of the problem, and its message.
BAD_CLUSTER: list[tuple[Change, str, str]] = [
    (lambda r: extra(r, "server", 2), "processes", "there is a server 2, but servers is 2"),
    (lambda r: extra(r, "worker", 5), "processes", "there is a worker 5, but threads is 2"),
    (lambda r: r["processes"].pop(0), "processes", "1 server of a successful run, but servers is 2"),
    (lambda r: r["processes"].pop(), "processes", "1 worker of a successful run, but threads is 2"),
    (lambda r: r["phases"][0].update(worker=2), "phases", "there is a worker 2, but threads is 2"),
    (lambda r: r["processes"][2].update(loop_s=1e6), "processes.2.loop_s", "1000000.0 is more than is possible"),
    (lambda r: r["processes"][2].update(cpu_s=1e300), "processes.2.cpu_s", "1e+300 is more than is possible"),
    (lambda r: r["processes"][2].update(steps=2**63 - 1), "processes.2.steps", "is more than is possible"),
    (lambda r: r["processes"][0].update(host="x" * 3000), "processes.0.host", "a text of 3,000 characters"),
    (lambda r: r["phases"][0].update(seconds=1e6), "phases.0.seconds", "1000000.0 is more than is possible"),
    (lambda r: r["phases"][0].update(samples=2**63 - 1), "phases.0.samples", "is more than is possible"),
    (lambda r: r["phases"][0].update(bytes=10**18), "phases.0.bytes", "1000000000000000000 is more than is possible"),
    (lambda r: r["phases"][0].update(transfers=2**63 - 1), "phases.0.transfers", "is more than is possible"),
]


@pytest.mark.parametrize(("change", "field", "said"), BAD_CLUSTER, ids=[said for _, _, said in BAD_CLUSTER])
def test_bad_run_of_a_cluster(tmp_path: Path, change: Change, field: str, said: str) -> None:
    run = valid_run("lock", **CLUSTER)
    assert checked(tmp_path / "b.zip", run).problems == []
    change(run)
    problem = only(checked(tmp_path / "b.zip", run))
    assert problem.field == field
    assert said in problem.text


def test_a_failed_run_of_a_cluster_may_lack_processes(tmp_path: Path) -> None:
    run = valid_run("lock", **CLUSTER) | {"status": "failed", "reason": "worker 1 ended", "final_accuracy": None}
    del run["processes"][1:]
    assert checked(tmp_path / "b.zip", run).problems == []


def test_only_a_cluster_has_processes_and_phases(tmp_path: Path) -> None:
    run, cluster = valid_run("lock"), valid_run("lock", **CLUSTER)
    run.update(processes=cluster["processes"], phases=cluster["phases"])
    first, second = checked(tmp_path / "b.zip", run).problems
    assert (first.field, second.field) == ("processes", "phases")
    assert first.text == "driver native runs no cluster, but there are processes."


def test_inconsistent_elements_are_of_the_variable(tmp_path: Path) -> None:
    run = valid_run("lock", optimiser="adam")
    assert run["lost"][0]["elements"] == 7840
    assert checked(tmp_path / "a.zip", run).problems == []
    run["lost"][0]["elements"] = 7841
    assert only(checked(tmp_path / "b.zip", run)).text == "7841 elements, but under optimiser adam W has 7840."


def test_an_update_of_mode_sync_is_that_of_all_workers(tmp_path: Path) -> None:
    run = valid_run("lock", **CLUSTER, mode="sync")
    for row in run["counters"]:
        row["updates"] = 500 if row["worker"] == 0 else 0
    for row in run["lost"]:
        row.update(expected=row["expected"] // 2, lost=0)
    run["staleness"] = []
    assert checked(tmp_path / "b.zip", run).problems == []
    run["counters"][0]["updates"] = 1000
    assert only(checked(tmp_path / "b.zip", run)).text == "1000 updates of W in all, but the trial makes 500."


def only(found: Report) -> Problem:
    (problem,) = found.problems
    return problem


@pytest.mark.parametrize(
    ("facts", "field", "said"),
    [
        ({"isa": "ppc64le", "cpu_vendor": "GenuineIntel"}, "platform.isa", "GenuineIntel makes x86_64: an emulator"),
        ({"isa": "aarch64", "cpu_vendor": "AuthenticAMD"}, "platform.isa", "AuthenticAMD makes x86_64: an emulator"),
        ({"isa": "x86_64", "cpu_vendor": "IBM"}, "platform.isa", "IBM makes ppc64le: an emulator"),
        ({"isa": "aarch64", "tm_capability": "htm"}, "platform.tm_capability", "which no processor of aarch64 has"),
        ({"isa": "ppc64le", "tm_capability": "rtm"}, "platform.tm_capability", "which no processor of ppc64le has"),
    ],
)
def test_machine_that_cannot_be(tmp_path: Path, facts: RunDocument, field: str, said: str) -> None:
    run = valid_run()
    run["platform"] |= facts
    machine = MACHINE | {"facts": run["platform"], "sha256": sha256_of(run["platform"])}
    problem = only(checked(tmp_path / "b.zip", run, documents={format.PLATFORM: machine}))
    assert problem.field == field
    assert said in problem.text


@pytest.mark.parametrize(
    "facts",
    [
        {"isa": "x86_64", "cpu_vendor": "AuthenticAMD"},
        {"isa": "x86_64", "cpu_vendor": "GenuineIntel", "tm_capability": "rtm"},
        {"isa": "ppc64le", "cpu_vendor": "IBM", "tm_capability": "htm"},
        {"isa": "ppc64le", "cpu_vendor": None, "tm_capability": "unknown"},
        {"isa": "ppc64", "cpu_vendor": "IBM", "tm_capability": "unknown"},
        {"isa": "aarch64", "cpu_vendor": "ARM"},
    ],
)
def test_machine_that_can_be(tmp_path: Path, facts: RunDocument) -> None:
    run = valid_run()
    run["platform"] |= facts
    machine = MACHINE | {"facts": run["platform"], "sha256": sha256_of(run["platform"])}
    assert checked(tmp_path / "b.zip", run, documents={format.PLATFORM: machine}).problems == []


def test_strategy_without_transactions_counts_none(tmp_path: Path) -> None:
    run = valid_run("striped")
    run["counters"][1].update(attempts=1, commits=1)
    assert "striped tries no transactions" in only(checked(tmp_path / "b.zip", run)).text
    run = valid_run("striped")
    run["aborts"] = valid_run()["aborts"][:1]
    assert only(checked(tmp_path / "b.zip", run)).text == "striped tries no transactions, but some aborted."


def test_chunks_of_an_update_are_critical_sections(tmp_path: Path) -> None:
    run = valid_run({"strategy": "stm", "chunk": 1000})
    for row in run["counters"]:  # 7,840 elements are 8 chunks, 10 are one
        n = 500 * (8 if row["variable"] == "W" else 1)
        row.update(commits=n, fallbacks=0, attempts=n + 3)
    assert checked(tmp_path / "b.zip", run).problems == []
    run["counters"][0].update(commits=3999, fallbacks=0, attempts=4002)
    assert "500 updates of W are 4000 critical sections, but" in only(checked(tmp_path / "b.zip", run)).text


def test_emulated_aborts_are_those_of_the_emulated_machine(tmp_path: Path) -> None:
    run = valid_run(EMULATED)
    config = run["backend"]["config"] | {"provider": "power"}
    run["backend"].update(config=config, config_sha256=sha256_of(config))
    (first, *_) = checked(tmp_path / "b.zip", run).problems
    assert first.text == "'rtm', but this run has transactions of 'power'."


def test_emulated_runs_show_no_time(tmp_path: Path) -> None:
    run = valid_run(EMULATED)
    run.update(loop_s=1e-6, curve=[])
    assert checked(tmp_path / "b.zip", run).problems == []


def test_updates_that_touch_less_may_be_faster(tmp_path: Path) -> None:
    limit_s = Limits({7840: 1000.0, 10: 10.0})
    assert limit_s.update_s(7840, "plain") == pytest.approx(500e-9)
    assert limit_s.update_s(7840, "fused") == pytest.approx(250e-9)
    assert limit_s.update_s(7840, "skip_zero") == pytest.approx(250e-9)
    assert limit_s.update_s(280, None) == pytest.approx(50e-9)  # half-way on logarithmic scales
    assert limit_s.update_s(78400, None) == pytest.approx(5000e-9)
    assert limit_s.update_s(1, None) == pytest.approx(0.5e-9)


def test_strategy_without_counters_has_limits_too(tmp_path: Path) -> None:
    run = valid_run("tf_lock", driver="session", measures="usual")
    run.update(counters=[], loop_s=1e-6, curve=[])
    assert only(checked(tmp_path / "b.zip", run)).field == "loop_s"


def test_digits_have_fewer_test_images(tmp_path: Path) -> None:
    run = valid_run(dataset="digits")
    run.update(final_accuracy=1 / DIGITS_TO_TEST)
    assert checked(tmp_path / "b.zip", run).problems == []
    run.update(final_accuracy=0.0001)
    assert "of the 300 test images" in only(checked(tmp_path / "b.zip", run)).text


CONVNET = {
    "model": "alexnet", "dataset": "synthetic", "image_size": 64, "driver": "session", "measures": "usual",
    "curve_points": 0,
}  # fmt: skip


def test_an_update_of_rows_changes_those_of_its_examples() -> None:
    factors: dict[str, Any] = {
        "model": "sparse_logistic", "dataset": "synthetic", "features": 100, "nonzeros": 4, "width": 5, "skew": 1.0,
        "driver": "native", "threads": 2, "iterations": 10, "learning_rate": 0.1, "strategy": "htm", "batch": 3,
        **parameters_of("htm"), "provider": "rtm",
    }  # fmt: skip
    limits = Limits({10: 10.0, 1000: 1000.0})
    expected = expect(TrialSpec.model_validate(factors), limits)
    assert expected.changed == {"weights": (20, 60)}
    assert expected.update_s == {"weights": pytest.approx(10e-9)}  # half of that of 20 elements
    assert (expected.sections, expected.tested) == ({"weights": 1}, features.TEST)
    in_chunks = expect(TrialSpec.model_validate(factors | {"chunk": 5, "batch": 10}), limits)
    assert (in_chunks.sections, in_chunks.changed) == (None, {"weights": (20, 200)})
    whole = expect(TrialSpec.model_validate(factors | {"batch": 100}), limits)
    assert whole.changed == {"weights": (20, 500)}


@pytest.mark.parametrize(
    ("model", "own", "rows"),
    [("matrix_factorisation", {"users": 30, "items": 20}, 2), ("skipgram", {"words": 50, "negatives": 3}, 5)],
)
def test_an_update_of_pairs_changes_their_rows(model: str, own: dict[str, int], rows: int) -> None:
    factors: dict[str, Any] = {
        "model": model, "dataset": "synthetic", "width": 5, "skew": 1.0, "driver": "native", "threads": 2,
        "iterations": 10, "learning_rate": 0.1, "strategy": "spin", "batch": 3, **own,
    }  # fmt: skip
    expected = expect(TrialSpec.model_validate(factors), None)
    elements = 5 * (2 * 50 if model == "skipgram" else 30 + 20)
    assert expected.elements == {"embeddings": elements}
    assert expected.changed == {"embeddings": (5 * rows, 5 * rows * 3)}
    assert (expected.sections, expected.tested) == ({"embeddings": 1}, 10_000)
    whole = expect(TrialSpec.model_validate(factors | {"batch": 1000}), None)
    assert whole.changed == {"embeddings": (5 * rows, elements)}


def test_inference_makes_no_updates_and_has_no_limit_of_them(tmp_path: Path) -> None:
    run = valid_run("tf_lock", **CONVNET, passes="forward")
    run.update(counters=[], loop_s=1e-3, final_accuracy=1 / images.TEST)
    assert checked(tmp_path / "b.zip", run).problems == []
    run.update(counters=[{"worker": 0, "variable": "conv1_W", "updates": run["spec"]["iterations"]}])
    assert "but the trial makes 0" in only(checked(tmp_path / "b.zip", run)).text
    trained = valid_run("tf_lock", **CONVNET, passes="both")
    trained.update(counters=[], loop_s=1e-3, final_accuracy=0)
    assert only(checked(tmp_path / "b.zip", trained)).field == "loop_s"


def test_unknown_strategy(tmp_path: Path) -> None:
    run = valid_run("striped")
    run["spec"].update(strategy="stripes", block=None, kernel=None, optimisation=None)
    problem = only(checked(tmp_path / "b.zip", run))
    assert problem.field == "spec.strategy"
    assert "unknown strategy 'stripes' (did you mean 'striped'?); known: tf_lock," in problem.text


def test_trials_of_a_round_one_after_another(tmp_path: Path) -> None:
    first, second = valid_run(), valid_run(batch=1)
    second.update(ordinal=1, started_at_utc="2026-01-01T00:01:30.000Z")
    first.update(total_s=30.0)
    assert checked(tmp_path / "b.zip", first, second).problems == []
    first.update(total_s=40.0)
    problem = only(checked(tmp_path / "b.zip", first, second))
    assert problem.text == f"it began 10.0 s before run {first['uid']} of the same round had ended."
    assert (problem.line, problem.uid) == (2, second["uid"])
    first["machine"].update(clock_moved_s=-6.0)  # the clock was set back during the run, and the run records it
    assert checked(tmp_path / "b.zip", first, second).problems == []


def test_runs_that_are_there_twice(tmp_path: Path) -> None:
    run, other = valid_run(), valid_run(batch=1)
    first, second = checked(tmp_path / "b.zip", run, other, run).problems
    assert first.text == "it has the uid of the run in runs/fig_4_1/0123456789ab/round-001.jsonl, line 1."
    assert (first.line, first.uid) == (3, run["uid"])
    assert "it has the campaign, the round, the point and the repeat of the run in" in second.text
    other["uid"] = run["uid"]
    assert "it has the uid of the run" in only(checked(tmp_path / "b.zip", run, other)).text


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        (lambda run: run.update(order_seed=7), "order_seed", "a round has one order."),
        (
            lambda run: run["campaign"].update(created_at_utc="2025-12-31T00:00:00.000Z"),
            "campaign.created_at_utc",
            "a campaign was created once.",
        ),
    ],
)
def test_runs_of_a_round_share_its_fields(tmp_path: Path, change: Change, field: str, said: str) -> None:
    run, other = valid_run(), valid_run(batch=1)
    other["experiment"] = run["experiment"]
    assert checked(tmp_path / "b.zip", run, other).problems == []
    change(other)
    problem = only(checked(tmp_path / "b.zip", run, other))
    assert (problem.line, problem.field) == (2, field)
    differs = "it differs from that of the run in runs/fig_4_1/0123456789ab/round-001.jsonl, line 1; "
    assert problem.text == differs + said
    other["campaign"]["uid"] = "another"
    assert checked(tmp_path / "b.zip", run, other).problems == []


def test_a_backend_is_of_one_kind(tmp_path: Path) -> None:
    run, other = valid_run(EMULATED), valid_run(EMULATED, batch=1)
    assert checked(tmp_path / "b.zip", run, other).problems == []
    other.update(evidence="simulated", time_domain="simulated")
    other["backend"].update(kind="simulator")
    fields = [problem.field for problem in checked(tmp_path / "b.zip", run, other).problems]
    assert "backend.kind" in fields


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ({format.PLATFORM: None}, "platform.json: it is missing"),
        ({format.PLATFORM: MACHINE | {"sha256": "0"}}, "platform.json: sha256 is 0, but the hash of its facts is"),
        ({format.PLATFORM: MACHINE | {"facts": {}}}, "platform.json, isa: Field required"),
        ({format.PLATFORM: MACHINE | {"more": 1}}, "platform.json, more: Extra inputs"),
        (
            {format.PROBE: PROBE | {"evidence": "guessed"}},
            "probe.json: evidence is 'guessed', but should be",
        ),
        ({format.PROBE: PROBE | {"platform_sha256": "0" * 64}}, "0000, but the platform of the bundle is"),
    ],
)
def test_documents(tmp_path: Path, documents: Mapping[str, Any], said: str) -> None:
    found = checked(tmp_path / "b.zip", valid_run(), documents=documents)
    assert said in only(found).sentence
    assert not found.ok


@pytest.mark.parametrize("probe", [None, PROBE | {"limits": {"update_ns": None, "why": {"update_ns": "no time"}}}])
def test_without_limits_there_is_a_note(tmp_path: Path, probe: Mapping[str, Any] | None) -> None:
    found = checked(tmp_path / "b.zip", valid_run(), documents={format.PROBE: probe})
    assert only(found).severity == "note"
    assert found.ok


def test_lines_that_are_no_runs(tmp_path: Path) -> None:
    bad = [valid_run(), valid_run(), valid_run(), valid_run()]
    bad[0]["loop_s"] = -1
    bad[1]["evidence"] = "published"
    bad[2]["reason"] = "gone\0"
    bad[3]["schema_version"] = 2
    found = checked(tmp_path / "b.zip", *bad)
    assert found.runs == 0
    assert [(problem.line, problem.uid, problem.field) for problem in found.problems] == [
        (1, bad[0]["uid"], "loop_s"),
        (2, bad[1]["uid"], None),
        (3, bad[2]["uid"], None),
        (4, None, None),
    ]
    assert "install a newer tmflow" in found.problems[3].text


def test_what_a_stranger_wrote_is_shown_without_harm(tmp_path: Path) -> None:
    run = valid_run()
    run["\x1b[2J" + "x" * 5000] = 1
    problem = only(checked(tmp_path / "b.zip", run))
    assert problem.field is not None
    assert problem.field.startswith("\\x1b[2Jxxx")
    assert len(problem.sentence) < 1000


def test_the_first_problems_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    run = valid_run()
    run["counters"] = [
        {"worker": worker, "variable": "W", "updates": 1, "commits": 0, "fallbacks": 0} for worker in range(1200)
    ]
    found = checked(tmp_path / "b.zip", run)
    assert len(found.problems) == MAX_PROBLEMS
    assert found.omitted > 0
