"""Cost model of trials and rounds in seconds, from similar past runs, or guessed; used only for the plan."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tmflow.base.errors import BadInput
from tmflow.base.files import read_present
from tmflow.native.availability import unfit_reason, unsupported_reason
from tmflow.native.build import core_file
from tmflow.native.loader import library_dir
from tmflow.native.registry import resolve
from tmflow.spec.models import MODELS
from tmflow.spec.process_env import OF_A_PROCESS
from tmflow.spec.trial import TrialSpec
from tmflow.training.models import load_network

# The cost of a trial comes from past runs that have the same factors: those of the first group in SIMILAR_BY for which
# there are any. A factor in none of these sets is assumed to change the cost of a step.
_PER_TRIAL = {"dataset", "threads", "iterations", "seed", "test_images", "curve_points"}
_PER_PROCESS = {"step_call", "pinning", "intra_op_threads", "inter_op_threads"}
_COST_LITTLE = {"variables", "learning_rate", "dropout_keep", "activation"}
_ALL = tuple(name for name in TrialSpec.model_fields if name not in _PER_TRIAL | _PER_PROCESS | _COST_LITTLE)
SIMILAR_BY = (
    (*_ALL, "threads"),
    _ALL,
    ("model", "driver", "batch", "gradient_cost", "strategy", "threads"),
    ("model", "driver", "batch", "gradient_cost", "strategy"),
)
_KEYS: tuple[Callable[[Any], Hashable], ...] = tuple(attrgetter(*names) for names in SIMILAR_BY)

# Keys of points that share a graph and a warm-up, and of points with equal cost per step that can all run, or none.
_OF_GRAPH = tuple(name for name in TrialSpec.model_fields if name not in _PER_TRIAL | _PER_PROCESS)
_GRAPH, _KIND = attrgetter(*_OF_GRAPH), attrgetter(*_OF_GRAPH, "threads")
WARM_UP_STEPS = {"native": 1000, "cluster": 20}  # cluster: of each worker; session: `Model.warm_up_steps`

# Guesses from 2 busy cores of an Intel Emerald Rapids: an order of magnitude, used until there are runs.
PROCESS_S = {"session": 6.0, "native": 2.5, "cluster": 6.0}  # to start one, including TensorFlow and the data
TASK_S = 2.0  # to start a server or worker of a cluster: each imports TensorFlow, several at a time
GRAPH_S = {"session": 0.2, "native": 0.0, "cluster": 0.5}
OUTPUTS_S = 6.0  # to store an experiment's runs, to draw its figures and write its table
SNAKEMAKE_S = 10.0  # to start it, which `tmflow study run` does again for each round that it adds
REPORT_S = 120.0  # to run the notebooks and write the report, once at the end
TRIAL_S = {"session": 0.05, "native": 0.05, "cluster": 0.2}  # a trial without its steps and evaluation
OVERLAP = 0.8  # the time of a step of a cluster with several workers, as a share of that with one
IMAGE_SIZE = 72  # of the guesses for models on synthetic images
NODE_US = 0.5  # of a small operation in a graph
BACKWARD = 0.6  # the share of a backward pass in a step (docs/autopsy.md)
_ELEMENT_NS = {
    "stm": 6.0,
    "itm": 2.0,
    "atomic": 10.0,
}  # per element of an update, for strategies much slower than a plain loop


class Cost(NamedTuple):
    """Seconds of a step, of evaluating one image once, and of the rest of a trial."""

    step_s: float
    image_s: float
    rest_s: float


class Costs:
    """Estimates of the cost of trials and rounds, from the runs in a results folder."""

    def __init__(self, results: Path) -> None:
        self._past: dict[tuple[int, Hashable], list[Cost]] = defaultdict(list)
        self.uids: set[str] = set()  # of the past runs
        for uid, spec, cost in _past(results):
            self.uids.add(uid)
            for level, key in enumerate(_KEYS):
                self._past[level, key(spec)].append(cost)
        self._medians: dict[tuple[int, Hashable], Cost] = {}

    def round_s(self, points: Iterable[TrialSpec], repeats: int = 1) -> float:
        """Seconds of a round of these points: its processes, a warm-up for each graph, and the trials."""
        kinds: dict[Hashable, list[TrialSpec]] = defaultdict(list)
        for point in points:
            kinds[_KIND(point)].append(point)
        total, graphs, starts = 0.0, dict[Hashable, float](), dict[Hashable, float]()
        for points_of_kind in kinds.values():
            first = points_of_kind[0]
            if not self._can_run(first):
                continue
            cost = self.of(first)
            total += repeats * _trials_s(cost, points_of_kind)
            process = tuple(first.process_env(base={}).items())
            starts[process] = max(starts.get(process, 0.0), _start_s(first))
            graph, warm_up_s = _GRAPH(first), GRAPH_S[first.driver] + _warm_up_steps(first) * cost.step_s
            graphs[graph] = max(graphs.get(graph, 0.0), warm_up_s)  # with as many workers as the largest trial
        return total + sum(graphs.values()) + sum(starts.values())

    def trial_s(self, point: TrialSpec) -> float:
        """Seconds of a trial of the point, without its process and its warm-up."""
        return _trials_s(self.of(point), [point])

    def of(self, point: TrialSpec) -> Cost:
        """The cost of a trial of the point: the median of the most similar past runs, else a guess.

        The median, because one run that hung for minutes would distort a mean.
        """
        for level, key in enumerate(_KEYS):
            if (place := (level, key(point))) in self._past:
                if place not in self._medians:
                    self._medians[place] = Cost(*map(median, zip(*self._past[place], strict=True)))
                return self._medians[place]
        return guess(point)

    def _can_run(self, point: TrialSpec) -> bool:
        """Whether the point can run here; if not, its trial costs nothing.

        Assumes that a strategy runs if it needs a separate process, or if its library is not built yet: the study
        builds it first.
        """
        try:
            strategy = resolve(point.strategy, point.parameters())
            if core_file(library_dir()) is None:
                return unfit_reason(point, strategy) is None
            return point.strategy in OF_A_PROCESS or unsupported_reason(point, strategy) is None
        except BadInput:
            return True


def guess(point: TrialSpec) -> Cost:
    """Guess the cost of a trial without similar past runs."""
    model = MODELS[point.model]
    step_us, image_us = model.step_us[point.driver]
    step_us = (step_us + image_us * point.batch) * (1 + BACKWARD * (point.gradient_cost - 1))
    if point.slowdown is not None:
        step_us *= _cluster_factor(point)
    if point.image_size is not None:
        step_us *= (point.image_size / IMAGE_SIZE) ** 2
    if point.passes == "forward":
        step_us *= 1 - BACKWARD
    step_us += (point.nodes or 0) * NODE_US
    step_us += _updated_elements(point) * _element_ns(point) / 1000
    if point.measures == "full":
        step_us *= 2
    return Cost(step_us / 1e6, model.evaluated_us / 1e6, TRIAL_S[point.driver])


def _updated_elements(point: TrialSpec) -> int:
    """The elements that an update of a step changes."""
    network = load_network(point.model)
    if not MODELS[point.model].by_rows:
        return network.elements(point)
    assert point.width is not None, "a spec of this model has it"
    return min(point.batch * network.pixels(point) * point.width, network.elements(point))


def _cluster_factor(point: TrialSpec) -> float:
    """What several workers, and a slowed one of them, do to the time of a step of a cluster.

    All workers take equally many steps, so the slowed one's last the longest. In mode model_parallel one of them takes
    all, so nothing overlaps.
    """
    assert point.slowdown is not None, "a spec of this driver has it"
    if point.mode == "model_parallel":
        return 1.0
    of_slowed = (1 + BACKWARD * (point.slowdown - 1)) / point.threads
    return max(OVERLAP if point.threads > 1 else 1.0, of_slowed)


def _start_s(point: TrialSpec) -> float:
    """Seconds to start the processes of a round that has the point."""
    return PROCESS_S[point.driver] + TASK_S * (point.threads + point.servers if point.servers else 0)


def _warm_up_steps(point: TrialSpec) -> int:
    if point.driver == "session":
        return MODELS[point.model].warm_up_steps
    return WARM_UP_STEPS[point.driver] * (point.threads if point.driver == "cluster" else 1)


def _trials_s(cost: Cost, points: Sequence[TrialSpec]) -> float:
    """Seconds of trials whose steps have the same cost."""
    steps, images = sum(point.iterations for point in points), sum(map(_evaluated, points))
    return steps * cost.step_s + images * cost.image_s + len(points) * cost.rest_s


def _element_ns(point: TrialSpec) -> float:
    """Nanoseconds per element that an update takes longer than an optimised loop."""
    if point.provider == "emulated":
        return 70.0
    if point.strategy in _ELEMENT_NS:
        times = 2.5 if point.instrumentation == "all" else 1.0
        times *= 2.0 if point.design == "wb_ctl" else 1.0
        return _ELEMENT_NS[point.strategy] * times * (5.0 if point.optimisation == "O0" else 1.0)
    if point.optimisation == "O0":
        return 9.0 if point.kernel == "eigen" else 2.0
    return 0.0


def _evaluated(point: TrialSpec) -> int:
    """The number of images in all evaluations of a trial."""
    return point.test_images * max(point.curve_points, 1)


def _past(results: Path) -> Iterator[tuple[str, TrialSpec, Cost]]:
    """Yield uid, spec and cost of the finished runs of both scales and of any definition.

    Skips lines that are not a run, such as the incomplete last line of a journal; `ingest` reports faults of a file.
    """
    for path in sorted(results.glob("runs/*/*/*/round-*.jsonl*")):
        if path.suffix not in (".jsonl", ".part"):
            continue
        for line in read_present(path).decode(errors="replace").splitlines():  # the end of a round removes its journal
            try:
                run = json.loads(line)
                spec = TrialSpec.model_construct(**run["spec"])
                if run["status"] == "ok":
                    rest_s = max(run["total_s"] - run["loop_s"] - run["evaluation_s"], 0.0)
                    image_s = run["evaluation_s"] / _evaluated(spec)
                    yield run["uid"], spec, Cost(run["loop_s"] / spec.iterations, image_s, rest_s)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
