"""The plan: grids, shared runs, numbers of threads that depend on the machine, and the estimated cost."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.sample_runs import sample_runs
from tests.unit.study.many_trials import study_of
from tmflow.base.errors import BadInput
from tmflow.base.files import write_json
from tmflow.cli import app
from tmflow.cli import study as study_command
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef
from tmflow.runner import journal
from tmflow.spec.trial import TrialSpec
from tmflow.study import campaign
from tmflow.study.config import check_study
from tmflow.study.cost_model import Costs, guess
from tmflow.study.grid import kept_threads
from tmflow.study.plan import Plan, dataset_path
from tmflow.workflow.status import status

FACTORS: dict[str, Any] = {
    "model": "mnist_softmax",
    "strategy": ["lock", "htm"],
    "threads": [1, 4, 64],
    "batch": 10,
    "iterations": 100,
    "learning_rate": 0.5,
}
ALSO = [
    {"strategy": {"strategy": "tle", "tunables": "custom"}, "threads": 1},
    {"model": "mnist_deep", "dropout_keep": 0.5, "iterations": 200, "strategy": "nolock"},
]


def study_with(also: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    one: dict[str, Any] = {"question": "Does it run?", "factors": {**FACTORS, "budget": [0, 5]}}
    if also is not None:
        one["also"] = also
    two = {"question": "And that?", "runs_of": "one", "only": {"budget": 5}, "shows": ["commits"]}
    return copy.deepcopy({"rounds": 2, "experiments": {"one": one, "two": two}, **changes})


def plan_of(raw: dict[str, Any], results: Path, processors: int = 2, scale: Any = "full") -> Plan:
    return Plan(check_study(raw), scale, results, processors)


@pytest.mark.parametrize(
    ("processors", "kept"),
    [
        (1, [1, 2]),
        (2, [1, 2, 4]),
        (4, [1, 2, 4, 8]),
        (12, [1, 2, 4, 8, 16]),
        (13, [1, 2, 4, 8, 16, 26]),
        (64, [1, 2, 4, 8, 16, 26, 32, 48, 64, 80]),
        (80, [1, 2, 4, 8, 16, 26, 32, 48, 64, 80]),
    ],
)
def test_kept_threads(processors: int, kept: list[int]) -> None:
    assert sorted(kept_threads([80, 64, 48, 32, 26, 16, 8, 4, 2, 1], processors)) == kept


def test_a_list_keeps_two_numbers_of_threads_on_the_smallest_machine() -> None:
    assert sorted(kept_threads([1, 4, 16], 1)) == [1, 4]


def test_threads_auto_cuts_each_list_by_itself_and_leaves_the_definition_alone(tmp_path: Path) -> None:
    raw = study_with([{"threads": [2, 8, 16, 32]}])
    plans = {n: plan_of({**raw, "threads": "auto"}, tmp_path, n) for n in (2, 4, 64)}
    of_lock = {n: [p for p in plan.points("one", "mnist") if p.strategy == "lock"] for n, plan in plans.items()}
    assert {n: [p.threads for p in points] for n, points in of_lock.items()} == {
        2: [1, 4, 2, 8],
        4: [1, 4, 2, 8],
        64: [1, 4, 64, 2, 8, 16, 32],
    }
    assert len({plan.definition_id("one") for plan in plans.values()}) == 1
    everything = plan_of(raw, tmp_path)
    assert len(everything.points("one", "mnist")) == len(plans[64].points("one", "mnist"))
    assert everything.definition_id("one") == plans[2].definition_id("one")


def test_further_grids_change_what_they_name_and_keep_of_the_rest_what_means_something(tmp_path: Path) -> None:
    points = plan_of(study_with(ALSO), tmp_path).points("one", "mnist")
    assert len([p for p in points if p.strategy in ("lock", "htm")]) == 3 + 3 * 2
    tle = [p for p in points if p.strategy == "tle"]
    assert [(p.tunables, p.threads, p.budget, p.iterations) for p in tle] == [("custom", 1, None, 100)]
    deep = [p for p in points if p.model == "mnist_deep"]
    assert [(p.strategy, p.threads, p.iterations) for p in deep] == [("nolock", n, 200) for n in (1, 4, 64)]
    with pytest.raises(BadInput, match="budget belongs to htm, htm_if_fits, not to tle"):
        check_study(study_with([{**ALSO[0], "budget": 5}]))


def test_quick_changes_factors_beneath_the_further_grids_and_may_replace_those(tmp_path: Path) -> None:
    raw = study_with(ALSO)
    raw["experiments"]["one"]["quick"] = {"factors": {"iterations": 70, "strategy": "lock", "threads": 1}}
    raw["experiments"]["one"]["factors"].pop("budget")
    quick = plan_of(raw, tmp_path, scale="quick").points("one", "mnist")
    assert [(p.strategy, p.iterations, p.threads) for p in quick] == [
        ("lock", 70, 1),
        ("tle", 70, 1),
        ("nolock", 200, 1),
    ]
    raw["experiments"]["one"]["quick"]["also"] = []
    assert len(plan_of(raw, tmp_path, scale="quick").points("one", "mnist")) == 1
    assert len(plan_of(raw, tmp_path).points("one", "mnist")) == 3 * 2 + 1 + 3


def test_without_further_grids_a_definition_is_as_it_was() -> None:
    assert check_study(study_with()).definition("one", "full", "mnist").keys() == {
        "dataset",
        "factors",
        "scale",
        "seed",
    }
    assert check_study(study_with([])).definition_id("one", "full") == check_study(study_with()).definition_id(
        "one", "full"
    )
    assert check_study(study_with(ALSO)).definition("one", "full", "mnist")["also"][0]["threads"] == [1]


def test_an_experiment_that_draws_on_another_s_runs_has_none(tmp_path: Path) -> None:
    plan = plan_of(study_with(), tmp_path)
    assert (plan.source("one"), plan.source("two")) == ("one", "one")
    assert plan.experiments == ["one", "two"]
    assert (plan.run_files("two"), plan.trials("two"), plan.points("two", "mnist")) == ([], 0, [])
    assert plan.definition_id("two") == plan.definition_id("one")
    assert plan.study.experiments["two"].shown() == {"only": {"budget": [5]}, "shows": ["commits"]}
    with pytest.raises(BadInput, match="no round 1 of experiment 'two'"):
        plan.job("two", 1, CampaignRef(uid="x" * 8, created_at_utc="2026-01-01T00:00:00Z"))


def test_rounds_come_by_value_then_by_number(tmp_path: Path) -> None:
    """Those of the first experiments before all others; one that uses the runs of another represents that one."""
    experiments = {name: {"question": "?", "factors": FACTORS} for name in ("a", "b", "c", "d")}
    experiments["drawn"] = {"question": "?", "runs_of": "c"}
    experiments["b"]["rounds"] = 1
    raw = {"rounds": 2, "first": ["d", "drawn"], "experiments": experiments}
    plan = plan_of(raw, tmp_path)
    order = [("d", 1), ("c", 1), ("d", 2), ("c", 2), ("a", 1), ("b", 1), ("a", 2)]
    assert plan.rounds_in_order == order
    assert [plan.priority(*place) for place in order] == [7, 6, 5, 4, 3, 2, 1]
    assert plan.priority("b", 2) == 0
    experiments["c"]["quick"] = {"skip": True}
    assert [name for name, _ in plan_of(raw, tmp_path, scale="quick").rounds_in_order] == [*"dddababab"]


def test_what_is_to_come_first_must_be_an_experiment(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"unknown experiment in first: 'tow' \(did you mean 'two'\?\); valid: one, two"):
        plan_of(study_with(first=["tow"]), tmp_path)


def test_what_quick_leaves_out_nothing_else_is_drawn_from(tmp_path: Path) -> None:
    raw = study_with()
    raw["experiments"]["one"]["quick"] = {"skip": True}
    assert plan_of(raw, tmp_path).experiments == ["one", "two"]
    assert plan_of(raw, tmp_path, scale="quick").experiments == []
    raw = study_with()
    raw["experiments"]["two"]["quick"] = {"skip": True}
    assert plan_of(raw, tmp_path, scale="quick").experiments == ["one"]


def recorded(plan: Plan, number: int, loop_s: dict[tuple[str, int], float], campaign_uid: str = "campaign-1") -> None:
    """A round of 'one' with these times of its runs, by strategy and threads; its other points were not run."""
    (example,) = sample_runs(["one"], ["lock"], [1], 1, curve_points=0)
    runs = []
    for ordinal, point in enumerate(plan.points("one", "mnist")):
        if (seconds := loop_s.get((point.strategy, point.threads))) is not None:
            times = {"loop_s": seconds, "evaluation_s": 0.5, "total_s": seconds + 0.7}
            its_campaign = example.campaign.model_copy(update={"uid": campaign_uid})
            identity = {"uid": f"{campaign_uid}-{number}-{ordinal}", "campaign": its_campaign, "spec": point}
            runs.append(example.model_copy(update=identity | times))
    record.write(plan.folder("one") / f"round-{number:03}.jsonl", runs)


def test_the_estimate_follows_past_runs_that_are_alike(tmp_path: Path) -> None:
    plan = plan_of(study_with(), tmp_path)
    lock_1, lock_4, lock_64, htm_1, *_ = plan.points("one", "mnist")
    recorded(plan, 1, {("lock", 1): 2.0, ("lock", 4): 1.0})
    recorded(plan, 2, {("lock", 1): 4.0})
    costs = Costs(tmp_path)
    assert costs.of(lock_1).step_s == pytest.approx(0.03)  # its own history
    assert costs.of(lock_4).step_s == pytest.approx(0.01)
    assert costs.of(lock_64).step_s == pytest.approx(0.02)  # the same, with other threads: 0.02, 0.04 and 0.01
    assert costs.of(lock_1).rest_s == pytest.approx(0.2)
    assert costs.of(lock_1).image_s == pytest.approx(0.5 / lock_1.test_images)
    assert costs.of(htm_1) == guess(htm_1)  # another strategy has none
    other = lock_4.model_copy(update={"kernel": "eigen", "iterations": 7})
    assert costs.of(other).step_s == pytest.approx(0.01)  # another kernel: by strategy, batch and threads
    assert costs.of(other.model_copy(update={"batch": 11})) == guess(other.model_copy(update={"batch": 11}))


def test_one_trial_that_hung_does_not_make_the_estimate_of_all(tmp_path: Path) -> None:
    plan = plan_of(study_with(), tmp_path)
    for number, loop_s in enumerate((2.0, 300.0, 2.1), start=1):
        recorded(plan, number, {("lock", 4): loop_s})
    lock_4 = plan.points("one", "mnist")[1]
    assert Costs(tmp_path).of(lock_4).step_s == pytest.approx(0.021)
    assert plan_of(study_with(), tmp_path).costs.trial_s(lock_4) == pytest.approx(2.1 + 0.5 + 0.2)


def test_a_longer_past_is_a_longer_estimate_and_of_that_experiment_alone(tmp_path: Path) -> None:
    raw = study_with()
    raw["experiments"]["far"] = {"question": "?", "factors": {**FACTORS, "batch": 50, "strategy": "lock"}}
    before = plan_of(raw, tmp_path)
    guessed = {name: before.estimated_s(name) for name in before.experiments}
    recorded(before, 1, {("lock", 1): 50.0})
    after = plan_of(raw, tmp_path)
    assert after.estimated_s("one") > guessed["one"] + 50
    assert {name: after.estimated_s(name) for name in ("two", "far")} == {
        name: guessed[name] for name in ("two", "far")
    }
    (tmp_path / "runs" / "full" / "one" / "x").mkdir()
    (tmp_path / "runs" / "full" / "one" / "x" / "round-001.jsonl.part").write_text('{"torn', encoding="utf-8")
    assert plan_of(raw, tmp_path).estimated_s("one") == after.estimated_s("one")


def test_what_is_not_built_yet_takes_time_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(tmp_path))
    given = {"dataset": "mnist", "threads": 1, "batch": 1, "iterations": 1000, "learning_rate": 0.5}
    point = TrialSpec.model_validate({"model": "mnist_softmax", "driver": "native", "strategy": "lock", **given})
    assert Costs(tmp_path).round_s([point]) > guess(point).step_s * 1000 > 0


def test_guesses_know_what_is_slow() -> None:
    def step_s(**factors: Any) -> float:
        given = {"dataset": "mnist", "threads": 1, "batch": 1, "iterations": 100, "learning_rate": 0.5, **factors}
        return guess(TrialSpec.model_validate({"model": "mnist_deep", "dropout_keep": 0.5, **given})).step_s

    assert step_s(strategy="lock") < step_s(strategy="lock", batch=15)
    assert step_s(strategy="lock", kernel="plain", optimisation="O0") < step_s(
        strategy="lock", kernel="eigen", optimisation="O0"
    )
    stm = {"strategy": "stm", "optimisation": "O3", "instrumentation": "shared"}
    assert 2 * step_s(strategy="lock") < step_s(**stm) < step_s(**{**stm, "instrumentation": "all"})


CLUSTER = {
    "dataset": "mnist", "driver": "cluster", "model": "mnist_sigmoid", "hidden": 100, "strategy": "tf_nolock",
    "batch": 100, "iterations": 1200, "learning_rate": 0.001,
}  # fmt: skip


def test_guesses_of_a_cluster_know_its_workers_and_the_slowed_one() -> None:
    """Of the order of what two cores of an EPYC measured (contrib/amd-epyc-2t)."""

    def step_s(**factors: Any) -> float:
        return guess(TrialSpec.model_validate({**CLUSTER, **factors})).step_s

    assert 1 / step_s(threads=1) == pytest.approx(265, rel=0.1)
    assert 1 / step_s(threads=2) == 1 / step_s(threads=8) == pytest.approx(340, rel=0.1)
    assert step_s(threads=2, slowdown=5) == pytest.approx(3.4 / 2 * step_s(threads=1))
    assert step_s(threads=8, slowdown=2) == step_s(threads=8)  # the others take longer
    assert 1 / step_s(threads=1, model="mnist_deep", hidden=None, dropout_keep=0.5, batch=1) == pytest.approx(
        35, rel=0.1
    )


def test_a_round_of_a_cluster_starts_the_processes_of_its_largest_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(tmp_path))  # whatever is built here
    costs = Costs(tmp_path)

    def start_s(*workers: int) -> float:
        """The seconds of a round beyond those of its trials and of the warm-up with the most workers."""
        points = [TrialSpec.model_validate({**CLUSTER, "threads": number}) for number in workers]
        warm_up_s = 20 * max(workers) * guess(points[-1]).step_s
        return costs.round_s(points) - sum(map(costs.trial_s, points)) - warm_up_s

    assert start_s(1, 4) == pytest.approx(start_s(4))
    assert start_s(4) - start_s(2) == pytest.approx(2 * 2.0)
    assert costs.round_s([TrialSpec.model_validate({**CLUSTER, "threads": 4, "servers": 2})]) - costs.round_s(
        [TrialSpec.model_validate({**CLUSTER, "threads": 4})]
    ) == pytest.approx(2.0)


def test_status_tells_where_the_time_of_the_campaign_went(tmp_path: Path) -> None:
    plan = plan_of(study_with(), tmp_path)
    assert status(plan)["overhead_fraction"] is None
    begun = campaign.begin(tmp_path, "full")
    begun.invocations[-1].started_at_utc = "2026-01-01T00:00:00+00:00"
    begun.invocations[-1].ended_at_utc = "2026-01-01T00:00:20+00:00"
    campaign.save(tmp_path, begun)
    recorded(plan, 1, {("lock", 1): 10.0, ("lock", 4): 2.0}, begun.uid)
    recorded(plan, 2, {("lock", 1): 100.0}, "an-older-one")
    journal.add_warm_up(plan.run_files("one")[0], begun.uid, 3.0)
    journal.add_warm_up(plan.run_files("one")[0], begun.uid, 0.5)
    journal.add_warm_up(plan.run_files("one")[1], "an-older-one", 7.0)
    with plan.run_files("one")[0].with_suffix(".warm-ups").open("a") as file:
        file.write(json.dumps({"campaign": begun.uid, "warm_up_s": 9.0}))  # cut off before its end
    state = status(plan)
    assert (state["timed_s"], state["warm_up_s"], state["wall_s"]) == (12.0, 3.5, 20.0)
    assert state["overhead_fraction"] == pytest.approx(1 - 15.5 / 20)
    assert state["trials_ok"] == 3
    assert state["missing"] == {"one": plan.trials("one") - 3}
    parts = {part["uid"]: (part["trials_ok"], part["timed_s"], part["warm_up_s"]) for part in state["campaigns"]}
    assert parts == {"an-older-one": (1, 100.0, 7.0), begun.uid: (2, 12.0, 3.5)}


def test_status_tells_of_the_whole_plan_and_by_which_campaigns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After another experiment was added to config.yaml, and began a separate campaign."""
    plan = plan_of(study_with(), tmp_path)
    first = campaign.begin(tmp_path, "full")
    recorded(plan, 1, {("lock", 1): 10.0}, first.uid)
    campaign.end(tmp_path, first, finished=True)
    second = campaign.begin(tmp_path, "full")
    monkeypatch.setattr(study_command, "make_plan", lambda scale: plan)
    said = CliRunner().invoke(app, ["study", "status"]).stdout.splitlines()
    assert said[0] == f"scale full: 1 of {plan.trials('one')} trials ok, 0 failed, 0 unsupported."
    missing = plan.trials("one") - 1
    assert said[1] == f"Not measured yet: {missing} trials; {missing} of one."
    campaigns = {line[: len("Campaign 01234567")]: line for line in said[2:]}
    assert set(campaigns) == {f"Campaign {one_campaign.uid[:8]}" for one_campaign in (first, second)}
    assert ": 1 trial; 10.0 s inside timed loops and 0.0 s warming up." in campaigns[f"Campaign {first.uid[:8]}"]
    assert ": 0 trials; " in campaigns[f"Campaign {second.uid[:8]}"]
    assert campaigns[f"Campaign {second.uid[:8]}"].endswith(" s in all.")


def test_planning_grows_with_the_trials_and_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries of the registry, which search folders, are made once per grid, not per point."""
    from tmflow.native import registry

    asked = []
    names = registry.names
    monkeypatch.setattr(registry, "names", lambda: asked.append(1) or names())
    for points in (60, 600):
        asked.clear()
        study = check_study(study_of(points))
        assert len(study.points("many", "full", "mnist")) == points
        assert len(asked) == 1


def test_repeats_multiply_the_trials_and_their_time_but_not_those_of_measured_rounds(tmp_path: Path) -> None:
    strategies = ("lock", "nolock")
    factors = {**FACTORS, "strategy": list(strategies), "threads": 1}
    raw: dict[str, Any] = {"rounds": 3, "experiments": {"one": {"question": "Which?", "factors": factors}}}
    once, thrice = plan_of(raw, tmp_path), plan_of({**raw, "repeats": 3}, tmp_path)
    assert (once.trials("one"), thrice.trials("one")) == (6, 18)
    points = once.points("one", "mnist")
    trials_s = 3 * sum(once.costs.trial_s(point) for point in points)
    assert thrice.estimated_s("one") - once.estimated_s("one") == pytest.approx(2 * trials_s)
    assert once.run_files("one") == thrice.run_files("one")
    measured = sample_runs(("one",), strategies, (1,), rounds=1)
    record.write(once.run_files("one")[0], measured)
    assert (once.trials("one"), thrice.trials("one")) == (6, 2 + 2 * 6)
    state = status(thrice)
    assert (state["trials_planned"], state["trials_ok"], state["missing"]) == (14, 2, {"one": 12})
    further = [run.model_copy(update={"uid": f"{run.uid}-2", "repeat": 2}) for run in measured]
    record.write(once.run_files("one")[0], [*measured, *further])
    state = status(once)
    assert (state["trials_planned"], state["trials_ok"], state["missing"]) == (8, 4, {"one": 4})


def test_the_job_of_a_round_has_the_repeats(tmp_path: Path) -> None:
    write_json(dataset_path(tmp_path), {"name": "digits"})
    raw = study_with()
    raw["experiments"]["one"]["repeats"] = 4
    job = plan_of(raw, tmp_path).job("one", 1, CampaignRef(uid="a-campaign", created_at_utc="2026-01-01T00:00:00Z"))
    assert job.repeats == 4
    assert len(job.ordered_trials()) == 4 * len(job.points)
