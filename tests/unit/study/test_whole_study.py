"""config.yaml itself: every figure of the study, the autopsies and further experiments, within the time budget."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
import yaml

from tmflow.base.paths import project_root
from tmflow.reports.comparisons import OF_ACCURACY, OF_ALL, OF_LOSSES, OF_STUDY
from tmflow.spec.factors import Executor, Transport
from tmflow.spec.trial import TrialSpec
from tmflow.study.config import Scale, Study, load_study
from tmflow.study.plan import Plan

CONFIG = project_root() / "config.yaml"
FIGURES = [f"fig-4.{number}" for number in range(1, 19)]
AUTOPSIES = ["autopsy-htm", "autopsy-stm", "autopsy-readers", "autopsy-gradient", "autopsy-pool"]
BEYOND = [
    "lock-waiting",
    "why-deep-fails",
    "what-truncation-costs",
    "crossover",
    "native-softmax",
    "transaction-size",
    "break-even",
    "true-contention",
    "consistency-for-free",
    "time-to-accuracy",
]
DISTRIBUTED = [
    "dist-baseline",
    "dist-workers",
    "dist-sync",
    "dist-variance",
    "dist-strategy",
    "dist-servers",
    "dist-placement",
]
RUNTIMES = ["transport-mnist", "transport-strategy", "exec-mnist", "exec-convnets", "exec-overhead"]
SPARSE = ["sparse-contention", "sparse-accuracy", "sparse-step-atomicity"]
OPTIMISERS = ["optimiser-state"]
COPIES = ["local-steps"]
# Figure, model, batch and matrix, as in DESIGN's table of the study.
TABLE = {
    **dict.fromkeys(FIGURES[:3], ("mnist_softmax", 100, 784, 1000)),
    **dict.fromkeys(FIGURES[3:6], ("mnist_softmax", 100, 100, 1000)),
    **dict.fromkeys(FIGURES[6:9], ("mnist_softmax", 1, 784, 10000)),
    "fig-4.10": ("mnist_deep", 1, 784, 100),
    "fig-4.11": ("mnist_deep", 15, 784, 100),
    "fig-4.12": ("mnist_deep", 1, 784, 400),  # the study: 5000 iterations
    **dict.fromkeys(("fig-4.13", "fig-4.15", "fig-4.17", "fig-4.18"), ("mnist_deep", 1, 784, 100)),
    **dict.fromkeys(("fig-4.14", "fig-4.16"), ("mnist_deep", 5, 784, 100)),
}
LOCKS = ["htm", "tf_lock", "tf_nolock"]
MINUTES = {"full": 90, "quick": 4}
MINUTES_OF_DISTRIBUTED = MINUTES_OF_RUNTIMES = MINUTES_OF_SPARSE = 40
MINUTES_OF_OPTIMISERS = 10
MINUTES_OF_COPIES = 15
EPOCH = 600  # steps at batch 100


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study(CONFIG)


def shown(study: Study, experiment: str) -> list[TrialSpec]:
    """The measured points that an experiment shows, on a machine that runs all numbers of threads."""
    only = study.experiments[experiment].shown()["only"]
    points = study.points(study.source(experiment), "full", "mnist")
    selected = [p for p in points if all(getattr(p, name) in (None, *values) for name, values in only.items())]
    return [point for point in selected if point.evidence == "measured"]


def test_it_is_the_whole_study_in_its_order(study: Study) -> None:
    assert list(study.experiments) == [
        *FIGURES,
        *AUTOPSIES,
        *BEYOND,
        *DISTRIBUTED,
        *RUNTIMES,
        *SPARSE,
        *OPTIMISERS,
        *COPIES,
    ]
    assert (study.rounds, study.threads) == (6, "auto")
    assert all(experiment.question.endswith("?") for experiment in study.experiments.values())


def test_what_is_to_reach_an_accuracy_is_tested_on_all_images(study: Study) -> None:
    """The first 5,000 are harder than the rest: on these alone mnist_mlp never reaches 97 %."""
    asked = [name for name in study.at("full") if "time_to_accuracy" in (study.experiments[name].shows or [])]
    assert asked == ["time-to-accuracy"]
    assert {point.test_images for point in study.points(asked[0], "full", "mnist")} == {10_000}


@pytest.mark.parametrize("figure", TABLE)
def test_a_figure_shows_what_the_study_did(study: Study, figure: str) -> None:
    points = shown(study, figure)
    assert {(p.model, p.batch, p.matrix, p.iterations) for p in points} == {TABLE[figure]}
    assert {(p.driver, p.variables, p.reading, p.step_call) for p in points} == {("session", "ref", "plain", "run")}
    number = int(figure.partition(".")[2])
    only_speed = number >= 10 and number != 12
    assert {point.learning_rate for point in points} == {0.001 if only_speed else 0.5}
    more = ["stm"] if number in range(13, 17) else ["tle"] if number > 16 else []
    assert sorted({point.strategy for point in points}) == sorted([*LOCKS, *more])
    threads = sorted([1, 2, 4, 8, 16, 26, 32, 48, 64] + [80] * (number in (7, 8, 9)) + [15, 34, 55] * (number >= 10))
    assert {
        p.strategy: sorted({q.threads for q in points if q.strategy == p.strategy}) for p in points
    } == dict.fromkeys(sorted([*LOCKS, *more]), threads)
    managers = {13: "suicide", 14: "suicide", 15: "backoff", 16: "backoff"}
    assert {p.manager for p in points if p.manager} == ({managers[number]} if number in managers else set())
    assert {p.instrumentation for p in points if p.strategy == "stm"} <= {"all"}
    tunables = {17: {"default"}, 18: {"custom"}}
    assert {p.tunables for p in points if p.tunables} == tunables.get(number, set())
    assert study.experiments[figure].shows


def test_emulated_transactions_stand_beside_the_real_ones_of_each_processor(study: Study) -> None:
    emulated = {
        name: {p.profile for p in study.points(name, "full", "mnist") if p.profile} for name in ("fig-4.1", "fig-4.7")
    }
    assert emulated == {"fig-4.1": {"intel-tsx-study"}, "fig-4.7": {"ibm-power8-s822"}}
    power = {p.provider for p in study.points("fig-4.7", "full", "mnist") if p.spending == "study_power"}
    assert power == {"power", "emulated"}


def test_the_autopsies_are_whole_products(study: Study) -> None:
    htm = Counter(
        (p.model, p.threads)
        for p in study.points("autopsy-htm", "full", "mnist")
        if p.strategy in ("lock", "spin_then_mutex", "htm")
    )
    assert set(htm.values()) == {4 * 2 * 2}
    assert {model for model, _ in htm} == {"mnist_deep", "mnist_softmax"}
    stm = [p for p in study.points("autopsy-stm", "full", "mnist") if p.strategy == "stm"]
    assert Counter(p.model for p in stm if p.threads == 1) == {"mnist_softmax": 2 * 2 * 3, "mnist_deep": 2 * 2}
    readers = [p for p in study.points("autopsy-readers", "full", "mnist") if p.optimisation]
    mutexes = Counter((p.strategy, p.subscription) for p in readers if p.threads == 1)
    assert set(mutexes.values()) == {2}
    assert {("lock", None), ("lock_pthread", None), ("htm", "variable"), ("htm", "ours")} <= set(mutexes)


def test_every_strategy_has_critical_sections_of_the_same_sizes(study: Study) -> None:
    sizes: dict[tuple[str, str], set[int]] = {}
    for point in study.points("break-even", "full", "mnist"):
        sizes.setdefault((point.model, point.strategy), set()).add(point.chunk or point.block or 0)
    assert {strategy for _, strategy in sizes} == {"nolock", "lock", "spin", "htm", "striped", "combining"}
    for (model, _), of_strategy in sizes.items():
        assert of_strategy == sizes[model, "lock"]
        assert 0 not in of_strategy


# Definitions that have been measured: runs of them exist, and would not count for another definition.
MEASURED = {
    "autopsy-htm": "01dc7fa490b2",
    "autopsy-stm": "0a13dc9dd751",
    "autopsy-readers": "aa9fdc87dbc5",
    "crossover": "e8c22bc47df8",
    "dist-baseline": "70f9551b331c",
    "dist-placement": "ba1fc562e4b0",
    "dist-servers": "dc7713eb55c4",
    "dist-strategy": "da632620b77e",
    "dist-sync": "c1d338008023",
    "dist-variance": "6a16ecf9701b",
    "dist-workers": "c533979ae761",
    "fig-4.1": "1838894b6304",
    "fig-4.7": "9a8d5306ac9b",
    "fig-4.10": "17339ccb5a3a",
    "fig-4.12": "d8b825f4c895",
    "native-softmax": "d153c53dc802",
    "time-to-accuracy": "2c2e0d2ea830",
    "transaction-size": "872420c8f5ec",
    "true-contention": "c00683314cfc",
    "what-truncation-costs": "8d4d5ed8db6d",
    "why-deep-fails": "fc9dba418ff8",
}


def test_new_factors_leave_measured_definitions_as_they_are(study: Study) -> None:
    assert {name: study.definition_id(name, "full") for name in MEASURED} == MEASURED


def test_the_gradient_is_slowed_down_for_the_builds_of_the_study(study: Study) -> None:
    points = study.points("autopsy-gradient", "full", "mnist")
    assert {(p.optimisation, p.model, p.intra_op_threads) for p in points} == {("O0", "mnist_deep", 1)}
    builds = {("lock", "eigen"), ("nolock", "eigen"), ("htm", "plain")}
    for batch, costs in ((1, (1, 5, 20, 50)), (15, (20,))):
        for cost in costs:
            at = [p for p in points if (p.batch, p.gradient_cost) == (batch, cost)]
            assert builds <= {(p.strategy, p.kernel) for p in at}
            assert {1, 15} <= {p.threads for p in at}
    assert {p.kernel for p in points if p.strategy == "htm"} == {"plain", "eigen", "skip_zero"}


def test_tensorflow_s_pool_is_varied_alone(study: Study) -> None:
    points = study.points("autopsy-pool", "full", "mnist")
    assert {(p.intra_op_threads, p.kernel) for p in points} == {(0, None), (0, "plain")}


def test_each_executor_has_the_same_points(study: Study) -> None:
    points = study.points("exec-mnist", "full", "mnist")
    assert Counter(p.executor for p in points) == dict.fromkeys(get_args(Executor), 8)
    assert {(p.inter_op_threads, p.driver) for p in points} == {(0, "session")}
    assert {p.model for p in points} == {"mnist_softmax", "mnist_deep"}


EXECUTORS = get_args(Executor)


def test_each_executor_infers_and_trains_each_network(study: Study) -> None:
    points = study.points("exec-convnets", "full", "mnist")
    networks = ("alexnet", "googlenet", "overfeat", "vgg16")
    ways = {(model, passes, threads) for model in networks for passes in ("forward", "both") for threads in (1, 2)}
    for executor in EXECUTORS:
        of_executor = [(p.model, p.passes, p.threads) for p in points if p.executor == executor]
        assert sorted(of_executor) == sorted(ways)
    assert {(p.dataset, p.image_size, p.strategy) for p in points} == {("synthetic", 72, "tf_lock")}


def test_each_executor_runs_graphs_of_ten_to_a_hundred_thousand_nodes(study: Study) -> None:
    points = study.points("exec-overhead", "full", "mnist")
    sizes = {("ops_loop", 100_000)}
    sizes |= {(shape, 10**power) for shape in ("ops_chain", "ops_fan_out", "ops_loop") for power in (1, 2, 3, 4)}
    for executor in EXECUTORS:
        assert sorted((p.model, p.nodes or 0) for p in points if p.executor == executor) == sorted(sizes)
    assert {(p.dataset, p.threads, p.step_call) for p in points} == {("synthetic", 1, "callable")}


def test_rows_have_a_lock_and_a_transaction_each_at_every_width(study: Study) -> None:
    points = study.points("sparse-contention", "full", "mnist")
    assert {(p.model, p.dataset, p.driver) for p in points} == {("sparse_logistic", "synthetic", "native")}
    for p in points:
        assert (p.block or p.width) in (p.width, 2048, 4096)
        assert (p.chunk or p.width) == p.width
    for width in (8, 64, 512):
        of_width = [p for p in points if p.width == width]
        assert {"striped", "block_stm"} <= {p.strategy for p in of_width if p.block == width}
        assert {0, width} == {p.chunk for p in of_width if p.strategy == "htm"}
    assert {p.chunk for p in points if p.strategy == "stm"} == {0, 64}
    cells = {*itertools.product((1, 16, 64), (0, 1)), (16, 1.5)}
    assert {(p.nonzeros, p.skew) for p in points if p.width == 64} == cells


def test_steps_and_rows_of_pairs_can_be_atomic(study: Study) -> None:
    points = study.points("sparse-step-atomicity", "full", "mnist")
    assert {p.model for p in points} == {"matrix_factorisation", "skipgram"}
    assert {(p.driver, p.width) for p in points} == {("native", 16)}
    assert {p.block for p in points if p.block} == {16}
    assert {p.chunk for p in points if p.strategy in ("htm", "stm")} == {0, 16}
    assert {p.strategy for p in points} == {"nolock", "striped", "lock", "spin", "block_stm", "htm", "stm"}


def test_each_transport_has_the_same_points(study: Study) -> None:
    for name, points_of_each in (("transport-mnist", 9), ("transport-strategy", 10)):
        points = study.points(name, "full", "mnist")
        of_tensorflow = [p for p in points if p.executor == "tensorflow"]
        assert Counter(p.transport for p in of_tensorflow) == dict.fromkeys(get_args(Transport), points_of_each)
        assert {p.driver for p in points} == {"cluster"}


def test_the_executors_of_servers_have_the_same_point(study: Study) -> None:
    points = [p for p in study.points("transport-mnist", "full", "mnist") if p.executor != "tensorflow"]
    assert sorted(str(p.executor) for p in points) == ["hpx", "std_pool", "tbb", "tf_pool"]
    assert {(p.transport, p.model, p.threads, p.mode) for p in points} == {("df", "mnist_softmax", 2, "async")}


@pytest.mark.parametrize("processors", [2, 3])
def test_a_small_machine_answers_the_main_question_with_several_workers(
    study: Study, tmp_path: Path, processors: int
) -> None:
    points = Plan(study, "full", tmp_path, processors).points(OF_ALL.experiment, "mnist")
    assert {1, 2} <= {point.threads for point in points}
    of_answer = [p for p in points if all(getattr(p, name) == value for name, value in OF_ALL.where.items())]
    at_two = [(p.strategy, p.kernel) for p in of_answer if p.threads == 2]
    assert {("lock", "plain"), ("lock", "fused"), ("striped", "fused"), ("adaptive", "plain")} <= set(at_two)
    assert len(set(at_two)) == len(at_two)  # a variant has one point, so that the answer need not choose
    resource = {(p.strategy, p.kernel) for p in points if p.variables == "resource" and p.threads == 2}
    assert {("tf_lock", None), ("adaptive", "plain"), ("lock", "fused")} <= resource


@pytest.mark.parametrize(("processors", "most"), [(2, 4), (4, 8), (64, 80), (80, 80)])
def test_threads_follow_the_machine_and_definitions_do_not(
    study: Study, tmp_path: Path, processors: int, most: int
) -> None:
    plan = Plan(study, "full", tmp_path, processors)
    assert max(point.threads for point in plan.points("fig-4.7", "mnist")) == most
    assert all(plan.definition_id(name) == study.definition_id(name, "full") for name in plan.experiments)
    assert plan.trials("fig-4.2") == 0


def test_figure_4_7_can_be_run_without_tensorflow(study: Study) -> None:
    """With the model, batch and iterations of the figure, but without TensorFlow's own pair of strategies."""
    points = study.points("native-softmax", "full", "mnist")
    assert {(p.model, p.batch, p.matrix, p.iterations) for p in points} == {TABLE["fig-4.7"]}
    assert {(p.driver, p.reading, p.learning_rate) for p in points} == {("native", "plain", 0.5)}
    assert Counter(p.strategy for p in points) == dict.fromkeys(("lock", "nolock", "htm", "striped", "block_stm"), 3)


@pytest.mark.parametrize("scale", ["full", "quick"])
def test_it_fits_into_its_time_on_two_cores(study: Study, tmp_path: Path, scale: Scale) -> None:
    plan = Plan(study, scale, tmp_path, 2)
    if scale == "quick":
        assert sum(map(plan.estimated_s, plan.experiments)) < 60 * MINUTES[scale]
        return
    others = [name for name in plan.experiments if name not in {*DISTRIBUTED, *RUNTIMES, *SPARSE, *OPTIMISERS, *COPIES}]
    assert sum(map(plan.estimated_s, others)) < 60 * MINUTES[scale]
    assert sum(map(plan.estimated_s, DISTRIBUTED)) < 60 * MINUTES_OF_DISTRIBUTED
    assert sum(map(plan.estimated_s, RUNTIMES)) < 60 * MINUTES_OF_RUNTIMES
    assert sum(map(plan.estimated_s, SPARSE)) < 60 * MINUTES_OF_SPARSE
    assert sum(map(plan.estimated_s, OPTIMISERS)) < 60 * MINUTES_OF_OPTIMISERS
    assert sum(map(plan.estimated_s, COPIES)) < 60 * MINUTES_OF_COPIES


def test_the_distributed_study_has_the_models_and_rates_of_its_report(study: Study) -> None:
    points = [point for name in DISTRIBUTED for point in study.points(name, "full", "mnist")]
    assert {point.driver for point in points} == {"cluster"}
    sigmoid = [point for point in points if point.model == "mnist_sigmoid"]
    assert {(p.hidden, p.batch, p.test_images, p.strategy) for p in sigmoid} == {(100, 100, 10_000, "tf_nolock")}
    baseline = study.points("dist-baseline", "full", "mnist")
    assert [(p.learning_rate, p.threads, p.servers, p.iterations) for p in baseline] == [
        (rate, 1, 1, 20 * EPOCH) for rate in (0.0005, 0.001)
    ]


def test_workers_are_compared_at_equal_steps_of_each_and_at_equal_updates(study: Study) -> None:
    points = study.points("dist-workers", "full", "mnist")
    for mode, several in (("async", {2, 3, 4}), ("sync", set())):
        of_mode = [point for point in points if point.mode == mode]
        in_all = {p.threads for p in of_mode if p.iterations == 2 * EPOCH}
        of_each = {p.threads for p in of_mode if p.iterations == 2 * EPOCH * p.threads}
        assert (in_all, of_each) == ({1, 2, 3, 4, 8}, {1, *several})
    assert {(p.learning_rate, p.curve_points) for p in points} == {(0.01, 10)}  # 20 epochs at a tenth of the rate


def test_waiting_is_compared_with_and_without_backup_workers(study: Study) -> None:
    points = study.points("dist-sync", "full", "mnist")
    ways = Counter((p.mode, p.backup_workers, p.slowdown) for p in points)
    modes = {(mode, 0, slowdown) for mode in ("async", "sync") for slowdown in (1, 2, 5)}
    assert ways == dict.fromkeys(modes | {("sync", 1, 1), ("sync", 1, 5)}, 2)


def test_five_equal_seeds_and_six_different_ones(study: Study) -> None:
    """The repeats of a round have its seed."""
    assert (study.rounds_of("dist-variance", "full"), study.repeats_of("dist-variance", "full")) == (6, 5)


def test_the_strategies_of_a_server_are_all_measured_with_one_to_four_workers(study: Study) -> None:
    points = study.points("dist-strategy", "full", "mnist")
    deep = Counter((p.strategy, p.kernel == "fused") for p in points if p.model == "mnist_deep")
    names = ["tf_lock", "tf_nolock", "lock", "striped", "combining", "block_stm", "htm", "adaptive"]
    assert deep == dict.fromkeys([*((name, False) for name in names), ("lock", True), ("striped", True)], 3)
    assert {p.model for p in points if p.threads == 2} == {"mnist_deep", "mnist_mlp", "mnist_softmax"}
    full = {p.strategy for p in points if p.measures == "full"}
    assert full == {*names, "nolock"} - {"tf_lock", "tf_nolock"}  # TensorFlow's own count nothing
    servers = Counter((p.servers, p.placement) for p in study.points("dist-servers", "full", "mnist") if p.threads == 2)
    assert servers == {
        (1, "round_robin"): 2,
        (2, "round_robin"): 2,
        (4, "round_robin"): 2,
        (2, "size"): 1,
        (4, "size"): 1,
    }


def test_layers_on_workers_are_compared_with_whole_models_on_workers(study: Study, tmp_path: Path) -> None:
    points = study.points("dist-placement", "full", "mnist")
    modes = {(model, mode) for model in ("mnist_deep", "mnist_mlp") for mode in ("async", "model_parallel")}
    assert Counter((p.model, p.mode) for p in points) == dict.fromkeys(modes, 1)
    assert {p.threads for p in points} == {2}
    assert Plan(study, "full", tmp_path, 2).estimated_s("dist-placement") < 180  # six rounds, each with three processes


def test_quick_keeps_all_of_the_machinery(study: Study) -> None:
    names = study.at("quick")
    figures = {"fig-4.1", "fig-4.2", "fig-4.3", "fig-4.10"}
    assert {*figures, "true-contention", "dist-workers", "exec-convnets", "exec-overhead"} == set(names)
    points = [point for name in names for point in study.points(name, "quick", "mnist")]
    assert {point.driver for point in points} == {"session", "native", "cluster"}
    graphs = {"ops_chain", "ops_fan_out", "ops_loop"}
    assert {point.model for point in points} == {"mnist_softmax", "mnist_deep", "mnist_sigmoid", "alexnet", *graphs}
    (of_cluster,) = [point for point in points if point.driver == "cluster"]
    assert (of_cluster.servers, of_cluster.threads, of_cluster.mode) == (1, 2, "async")
    assert of_cluster.iterations <= EPOCH
    assert {point.measures for point in points} == {"usual", "full"}
    assert {point.reading for point in points} == {"plain", "consistent"}
    assert {point.evidence for point in points} == {"measured", "emulated"}


def test_every_knob_is_commented() -> None:
    text = CONFIG.read_text()
    top = [line for line in text.splitlines() if re.match(r"^[a-z_]+: \S", line)]
    assert all("#" in line for line in top), top
    assert set(yaml.safe_load(text)) <= set(Study.model_fields)


def test_what_the_overview_rests_on_is_measured_first() -> None:
    """So that a study stopped after an hour answers the overview's questions."""
    study = load_study(CONFIG)
    assert set(study.first) == {constant.experiment for constant in (OF_STUDY, OF_ALL, OF_ACCURACY, OF_LOSSES)}


def test_every_experiment_with_runs_has_a_title_of_its_own() -> None:
    experiments = load_study(CONFIG).experiments.values()
    titles = [experiment.title for experiment in experiments if experiment.runs_of is None]
    assert None not in titles
    assert len(set(titles)) == len(titles)
