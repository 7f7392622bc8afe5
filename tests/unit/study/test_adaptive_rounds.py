"""Adaptive rounds: which intervals request another round, whatever happened to the process that requested before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.sample_runs import ENVIRONMENT, sample_runs
from tmflow.analysis.stats import Interval, ratio_interval
from tmflow.base.errors import BadInput
from tmflow.base.files import write_json
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.spec.trial import TrialSpec
from tmflow.study import adaptive_rounds, campaign
from tmflow.study.config import Scale, check_study
from tmflow.study.cost_model import OUTPUTS_S
from tmflow.study.plan import Plan, dataset_path
from tmflow.workflow.status import status

FACTORS: dict[str, Any] = {"model": "mnist_softmax", "batch": 10, "iterations": 100, "learning_rate": 0.5}
ROUNDS, AT_MOST = 4, 6
# By round, the ratio of the other variant's time to the baseline's; the limit is a half-width of log 1.05 = 0.0488.
NARROW = (1.50, 1.52, 1.48, 1.50, 1.51, 1.49)  # 0.017 after 4 rounds
WIDE = (1.50, 1.60, 1.40, 1.50, 1.55, 1.45)  # 0.087 after 4 rounds, 0.062 after 5, 0.0495 after 6


def plan_of(
    results: Path, strategies: Sequence[Any] = ("lock", "nolock"), scale: Scale = "full", **changes: Any
) -> Plan:
    """A study of one experiment with these strategies; `changes` replace factors, or settings of the experiment."""
    settings = {key: changes.pop(key) for key in ("rounds", "rounds_at_most", "shows") if key in changes}
    factors = {**FACTORS, "strategy": list(strategies), "threads": [1, 2], **changes}
    raw = {
        "dataset": "digits",
        "rounds": ROUNDS,
        "rounds_at_most": AT_MOST,
        "experiments": {"one": {"question": "Which?", "factors": factors, **settings}},
    }
    write_json(dataset_path(results), {"name": "digits"})
    return Plan(check_study(raw), scale, results)


def timed(point: TrialSpec, number: int, loop_s: float | None) -> Run:
    """A run of a point in a round; without a time it has failed."""
    fields = point.model_dump(exclude={"strategy", "threads", *point.parameters()})
    variant = {"strategy": point.strategy, **point.parameters()}
    (run,) = sample_runs(("one",), [variant], (point.threads,), rounds=1, **fields)
    failure = {"status": "failed", "reason": "boom", "final_accuracy": None} if loop_s is None else {}
    return run.model_copy(update={"round": number, "loop_s": loop_s, **failure})


def measure(plan: Plan, ratios: Sequence[float], **changes: Any) -> None:
    """Write all planned rounds that do not exist: drift affects all points, the first strategy is the baseline."""
    points = plan.points("one", "digits")
    for number, path in enumerate(plan.run_files("one"), 1):
        drift = 0.1 * 2**number
        times = [drift if p.strategy == points[0].strategy else drift * ratios[number - 1] for p in points]
        if not path.exists():
            runs = [timed(point, number, loop_s) for point, loop_s in zip(points, times, strict=True)]
            record.write(path, [run.model_copy(update=changes) for run in runs])


def test_a_narrow_interval_wants_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    measure(plan, NARROW)
    assert adaptive_rounds.may_add(plan)
    assert adaptive_rounds.wanting(plan) == {}


def test_rounds_are_added_up_to_the_cap(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    measure(plan, WIDE)
    began = campaign.begin(tmp_path, "full")
    for number in (5, 6):
        assert adaptive_rounds.wanting(plan) == {"one": number}
        plan.allot(began, {"one": number})
        assert plan.rounds("one") == len(plan.run_files("one")) == number
        assert not plan.is_measured()
        assert adaptive_rounds.wanting(plan) == {}  # not before the round is measured
        measure(plan, WIDE)
    ratio = adaptive_rounds.comparisons(plan.points("one", "digits"), plan.finished_runs("one"))[0]
    assert adaptive_rounds.too_wide(ratio)
    assert adaptive_rounds.wanting(plan) == {}
    assert not adaptive_rounds.may_add(plan)
    assert plan.is_measured()


def test_rounds_stop_where_the_interval_is_narrow_enough(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    ratios = (1.50, 1.56, 1.44, 1.50, 1.50)  # half-width of the log 0.052 after 4 rounds, 0.035 after 5
    measure(plan, ratios)
    assert adaptive_rounds.wanting(plan) == {"one": 5}
    plan.allot(campaign.begin(tmp_path, "full"), {"one": 5})
    measure(plan, ratios)
    assert adaptive_rounds.wanting(plan) == {}
    assert plan.rounds("one") == 5


def test_what_was_added_outlives_process_campaign_and_config(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    measure(plan, WIDE)
    assert plan_of(tmp_path).rounds("one") == ROUNDS  # killed before the answer was recorded: decided again
    assert adaptive_rounds.wanting(plan_of(tmp_path)) == {"one": 5}
    began = campaign.begin(tmp_path, "full")
    plan.allot(began, {"one": 5})
    assert plan_of(tmp_path).rounds("one") == 5  # killed after it
    measure(plan, WIDE)
    campaign.end(tmp_path, began, finished=True)
    assert campaign.current(tmp_path, "full").uid != began.uid
    assert plan_of(tmp_path).rounds("one") == 5
    assert plan_of(tmp_path, rounds_at_most=4).rounds("one") == 4
    assert plan_of(tmp_path, batch=20).rounds("one") == ROUNDS  # another definition starts again
    campaign.set_aside(tmp_path, "full")
    assert plan_of(tmp_path).rounds("one") == ROUNDS


def test_rounds_for_claims_have_no_limit_and_outlive_the_campaign(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    before = plan.definition_id("one")
    began = campaign.begin(tmp_path, "full")
    plan.allot_to_claims(began, {"one": AT_MOST + 3})
    assert plan_of(tmp_path).rounds("one") == len(plan.run_files("one")) == AT_MOST + 3
    plan.allot(began, {"one": 5})
    assert plan.rounds("one") == AT_MOST + 3
    measure(plan, WIDE + WIDE)
    assert adaptive_rounds.wanting(plan) == {}  # the interval is as wide as before, and the limit still holds here
    campaign.end(tmp_path, began, finished=True)
    assert campaign.current(tmp_path, "full").uid != began.uid
    assert plan_of(tmp_path, rounds_at_most=4).rounds("one") == AT_MOST + 3
    assert plan_of(tmp_path, scale="quick").rounds("one") == 3
    assert plan_of(tmp_path, batch=20).rounds("one") == ROUNDS  # another definition starts again
    assert plan.definition_id("one") == before


def test_plan_and_status_count_what_was_added(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert plan.trials("one") == 4 * ROUNDS
    before = plan.estimated_s("one")
    plan.allot(campaign.begin(tmp_path, "full"), {"one": 6})
    assert plan.trials("one") == status(plan)["trials_planned"] == 4 * 6
    assert plan.estimated_s("one") - OUTPUTS_S == pytest.approx((before - OUTPUTS_S) * 6 / 4)


def test_quick_adds_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, scale="quick")
    measure(plan, WIDE)
    assert plan.is_measured()
    assert not adaptive_rounds.may_add(plan)
    assert adaptive_rounds.wanting(plan) == {}


def test_figures_of_no_time_want_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, shows=["accuracy"])
    measure(plan, WIDE)
    assert adaptive_rounds.wanting(plan) == {}


def test_without_a_cap_nothing_is_added(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, rounds=AT_MOST)
    measure(plan, WIDE)
    assert not adaptive_rounds.may_add(plan)
    assert adaptive_rounds.wanting(plan) == {}


def test_a_single_round_has_no_interval_and_wants_another(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, rounds=1)
    measure(plan, NARROW)
    assert adaptive_rounds.wanting(plan) == {"one": 2}


@pytest.mark.parametrize("ratio", [0.1, 1.0, 1.001, 40.0])
def test_only_the_width_counts(tmp_path: Path, ratio: float) -> None:
    for ratios, wants in ((NARROW, {}), (WIDE, {"one": 5})):
        results = tmp_path / str(len(wants))
        plan = plan_of(results)
        measure(plan, [value / 1.5 * ratio for value in ratios])
        assert adaptive_rounds.wanting(plan) == wants


@pytest.mark.parametrize(
    ("factors", "changes"),
    [
        ({"strategies": ["lock"]}, {}),  # no point to compare it with
        ({"driver": "native", "measures": "full"}, {}),
        ({"strategies": ["lock", {"strategy": "htm", "provider": "emulated", "profile": "intel-tsx-study"}]}, {}),
        ({"threads": [16, 32]}, {}),  # the machine has 8
        ({"threads": [2, 4]}, {"environment": {**ENVIRONMENT, "cpus_allowed": 1}}),
    ],
    ids=["one variant", "measures: full", "emulated", "oversubscribed", "confined"],
)
def test_what_shows_no_time_or_no_scaling_takes_no_part(
    tmp_path: Path, factors: dict[str, Any], changes: dict[str, Any]
) -> None:
    plan = plan_of(tmp_path, **factors)
    measure(plan, WIDE, **changes)
    assert plan.is_measured()
    assert adaptive_rounds.wanting(plan) == {}


def test_each_thread_count_is_compared_with_the_first_variant_that_has_a_result(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ["tf_lock", "lock", "nolock"])
    points = plan.points("one", "digits")
    seconds = {"tf_lock": None, "lock": 1.0, "nolock": 3.0}
    runs = [timed(p, number, seconds[p.strategy]) for number in (1, 2) for p in reversed(points)]
    ratios = adaptive_rounds.comparisons(points, runs)
    assert [(ratio.estimate, ratio.n) for ratio in ratios] == [(pytest.approx(3.0), 2)] * 2


def test_rounds_without_both_results_are_left_out() -> None:
    lock, nolock = (TrialSpec(**FACTORS, dataset="digits", strategy=name, threads=1) for name in ("lock", "nolock"))
    runs = [timed(lock, 1, 1.0), timed(nolock, 1, 2.0), timed(lock, 2, 1.0), timed(nolock, 2, None)]
    runs += [timed(nolock, 3, 4.0), timed(lock, 3, 2.0)]
    (ratio,) = adaptive_rounds.comparisons([lock, nolock], runs)
    assert ratio.estimate == pytest.approx(2.0)
    assert ratio.n == 2
    assert adaptive_rounds.comparisons([lock, nolock], runs[:1] + runs[3:4]) == []


def test_too_wide_is_over_five_percent_to_either_side() -> None:
    def ratio(half: float) -> Interval:
        return Interval(2.0, 2 * math.exp(-half), 2 * math.exp(half), 6)

    assert not adaptive_rounds.too_wide(ratio(math.log(1.049)))
    assert adaptive_rounds.too_wide(ratio(math.log(1.051)))


@pytest.mark.parametrize("at_most", [8, 12])
def test_to_stop_when_narrow_moves_no_estimate_and_costs_little_coverage(at_most: int) -> None:
    """The noise makes most studies stop just before the limit, where chance affects an interval most."""
    studies = 5000
    logs = np.random.default_rng(at_most).normal(0, 0.08, (studies, at_most))
    stopped = [_study(values) for values in logs]
    estimates = np.array([math.log(ratio.estimate) for ratio in stopped])
    assert abs(estimates.mean()) < 3 * estimates.std() / math.sqrt(studies)
    covered = np.mean([ratio.low <= 1 <= ratio.high for ratio in stopped])
    assert covered >= {8: 0.93, 12: 0.92}[at_most]  # 0.941 and 0.933 are expected, with a standard error of 0.0034
    assert len({ratio.n for ratio in stopped}) == at_most - 5


def _study(logs: NDArray[np.float64]) -> Interval:
    """The data when the rounds end: after six, or after as many more as are requested."""
    for number in range(6, len(logs) + 1):
        ratio = ratio_interval(np.exp(logs[:number]), np.ones(number))
        if not adaptive_rounds.too_wide(ratio):
            return ratio
    return ratio


def test_a_cap_below_the_rounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"experiments\.one: rounds_at_most is 3, but must not be below its rounds, 4\."):
        plan_of(tmp_path, rounds_at_most=3)


def test_a_round_counts_once_with_the_average_of_its_repeats(tmp_path: Path) -> None:
    points = plan_of(tmp_path).points("one", "digits")[::2]  # two strategies with one thread
    once = [timed(point, n, 1.0 + n * place) for n in (1, 2, 3) for place, point in enumerate(points)]
    factors = ((1, 0.5), (2, 2.0))
    several = [run.model_copy(update={"repeat": k, "loop_s": run.loop_s * f}) for k, f in factors for run in once]
    (ratio,), (expected,) = (adaptive_rounds.comparisons(points, runs) for runs in (several, once))
    assert ratio == pytest.approx(expected)
    assert ratio.n == 3
