"""config.yaml: a closed schema of experiments, and the checks that no schema can express."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from tmflow.base.canonical_json import sha256_of
from tmflow.base.documents import document, read_yaml
from tmflow.base.errors import BadInput, unknown
from tmflow.runfile.record import MOST_REPEATS, ExperimentRef
from tmflow.spec.factors import Dataset
from tmflow.spec.trial import TrialSpec
from tmflow.study.grid import FACTORS, Factor, Factors, Grid, expand, kept_threads, make_grid

Scale = Literal["full", "quick"]
SCALES: tuple[Scale, ...] = get_args(Scale)

# The kinds of figures that an experiment may show: keys of `figures.DRAWINGS`, listed here to avoid importing charts.
Kind = Literal[
    "speedup",
    "speedup_vs_tf_lock",
    "step_time",
    "time_over_lock",
    "accuracy",
    "commits",
    "failures",
    "causes",
    "time_to_accuracy",
    "curve",
    "staleness",
    "mean_staleness",
    "p95_staleness",
    "lost",
    "torn",
    "inconsistent",
    "lock_waited",
    "lock_held",
    "phases",
    "step_transfers",
    "step_bytes",
]

TIMES: frozenset[Kind] = frozenset(
    {"speedup", "speedup_vs_tf_lock", "step_time", "time_over_lock", "time_to_accuracy", "phases"}
)

# TensorFlow creates these thread pools once per process, for its first session, and a round is one process.
PER_PROCESS = ("intra_op_threads", "inter_op_threads")


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class QuickExperiment(_Closed):
    """The changes of `make quick` to an experiment; everything else stays the same."""

    skip: bool = Field(False, description="leave it out")
    factors: Factors = {}
    also: list[Factors] | None = Field(None, description="in place of the experiment's")


# Keys about runs, which an experiment that uses the runs of another cannot have.
_OF_RUNS = {"factors", "also", "rounds", "repeats", "quick.factors", "quick.also"}


class Experiment(_Closed):
    """A named grid (the product of all values of all factors), further grids, or figures of other runs."""

    title: str | None = Field(None, min_length=5, max_length=60, description="what the portal calls the experiment")
    question: str = Field(description="what the experiment answers, in one sentence")
    rounds: int | None = Field(None, ge=1, le=1000, description="overrides the study's rounds")
    rounds_at_most: int | None = Field(None, ge=1, le=1000, description="overrides the study's rounds_at_most")
    repeats: int | None = Field(None, ge=1, le=MOST_REPEATS, description="overrides the study's repeats")
    factors: Factors = {}
    also: list[Factors] = Field([], description="further grids: what each changes of the factors")
    runs_of: str | None = Field(None, description="the experiment whose runs it draws; it has no own runs")
    only: dict[str, Factor | list[Factor]] = Field(
        {}, description="the runs that it draws, by factors; one without such a factor is drawn, too"
    )
    shows: list[Kind] | None = Field(None, min_length=1, description="its kinds of figures; all if not given")
    quick: QuickExperiment = QuickExperiment()

    @model_validator(mode="after")
    def _has_one_source_of_runs(self) -> Self:
        if self.runs_of is None and not self.factors:
            raise ValueError("it has neither factors, which make runs, nor runs_of, the experiment whose runs it draws")
        if self.runs_of is not None:
            changed = {f"quick.{name}" for name in self.quick.model_fields_set - {"skip"}}
            for name in sorted((self.model_fields_set | changed) & _OF_RUNS):
                raise ValueError(f"runs_of {self.runs_of} means that it has no own runs, so it cannot have {name}")
        return self

    def shown(self) -> dict[str, Any]:
        """The runs and the kinds of figures that the experiment shows, as JSON types."""
        only = {name: values if isinstance(values, list) else [values] for name, values in self.only.items()}
        return {"only": only, "shows": self.shows}


class Quick(_Closed):
    rounds: int = Field(3, ge=1, le=1000)


class Study(_Closed):
    """The contents of config.yaml."""

    dataset: Literal["auto", "mnist", "digits"] = "auto"
    seed: int = Field(0, ge=0, le=2**31 - 1001)
    rounds: int = Field(6, ge=1, le=1000, description="fresh processes per experiment")
    rounds_at_most: int | None = Field(
        None, ge=1, le=1000, description="rounds are added up to here while an interval is too wide; None: never"
    )
    repeats: int = Field(1, ge=1, le=MOST_REPEATS, description="how often a round runs each point")
    trial_timeout_s: float = Field(600, gt=0, description="a trial, or its warm-up, that takes longer is a timeout")
    threads: Literal["all", "auto"] = Field(
        "all", description="auto: of each list of threads what `kept_threads` keeps"
    )
    first: list[str] = Field([], description="experiments of which all rounds are measured before any round of another")
    quick: Quick = Quick()
    defaults: Factors = {}
    experiments: dict[str, Experiment] = Field(min_length=1)
    _points: dict[tuple[str, Scale, Dataset], list[list[TrialSpec]]] = PrivateAttr(default_factory=dict)

    @field_validator("experiments")
    @classmethod
    def _names_make_paths_and_runs_are_there(cls, value: dict[str, Experiment]) -> dict[str, Experiment]:
        for name in value:
            if not name or not all(c.isalnum() or c in "-." for c in name) or not name[0].isalnum():
                raise ValueError(f"experiment name {name!r} may hold only letters, digits, '-' and '.'")
        with_runs = [name for name, experiment in value.items() if experiment.runs_of is None]
        for name, experiment in value.items():
            if experiment.runs_of is not None and experiment.runs_of not in with_runs:
                says = str(unknown(f"runs_of in experiment {name}:", experiment.runs_of, with_runs))
                raise ValueError(says.removesuffix("."))
        return value

    @model_validator(mode="after")
    def _first_are_there(self) -> Self:
        for name in self.first:
            if name not in self.experiments:
                raise ValueError(str(unknown("experiment in first:", name, self.experiments)).removesuffix("."))
        return self

    @property
    def titles(self) -> dict[str, str]:
        """The titles of the experiments that have one, by id."""
        return {name: it.title for name, it in self.experiments.items() if it.title is not None}

    def at(self, scale: Scale) -> list[str]:
        """The experiments of a scale; quick may skip some, and with them the experiments that use their runs."""
        if scale == "full":
            return list(self.experiments)
        left_out = {name for name, experiment in self.experiments.items() if experiment.quick.skip}
        return [name for name in self.experiments if left_out.isdisjoint({name, self.source(name)})]

    def source(self, name: str) -> str:
        """The experiment whose runs the experiment uses: itself, or another."""
        return self.experiments[name].runs_of or name

    def shows_time(self, name: str) -> bool:
        """Whether any experiment shows the runs of this experiment in a figure of time."""
        kinds = [experiment.shows for user, experiment in self.experiments.items() if self.source(user) == name]
        return any(shows is None or not TIMES.isdisjoint(shows) for shows in kinds)

    def rounds_of(self, name: str, scale: Scale) -> int:
        """The number of rounds of the experiment at this scale."""
        return self.quick.rounds if scale == "quick" else self.experiments[name].rounds or self.rounds

    def rounds_at_most_of(self, name: str, scale: Scale) -> int:
        """The most rounds that the experiment may get at this scale; quick adds none."""
        if scale == "quick":
            return self.quick.rounds
        return self.experiments[name].rounds_at_most or self.rounds_at_most or self.rounds_of(name, scale)

    def repeats_of(self, name: str, scale: Scale) -> int:
        """How often a round of the experiment runs each point; quick runs it once."""
        return 1 if scale == "quick" else self.experiments[name].repeats or self.repeats

    def grids(self, name: str, scale: Scale) -> list[Grid]:
        """The factors of each grid of an experiment with their lists of values, including the study's defaults.

        A default is left out if none of the grid's strategies has the parameter, or if the factor belongs to another
        driver or model. The same holds in a further grid for inherited factors.
        """
        experiment = self.experiments[name]
        if experiment.runs_of is not None:
            return []
        factors, also = experiment.factors, experiment.also
        if scale == "quick":
            factors = {**factors, **experiment.quick.factors}
            also = also if experiment.quick.also is None else experiment.quick.also
        return [
            make_grid(self.defaults, factors),
            *(make_grid({**self.defaults, **factors}, changes) for changes in also),
        ]

    def points(self, name: str, scale: Scale, dataset: Dataset, processors: int | None = None) -> list[TrialSpec]:
        """The points of an experiment: the product of the factors of each grid, in the order of config.yaml.

        A parameter multiplies only the points of the strategies that have it, except entries that set the parameter
        themselves. A factor of a driver or a model multiplies only the points of that driver or model. `processors` is
        the number of hardware threads, for `threads: auto`; None keeps every number of threads.
        """
        key = (name, scale, dataset)
        if key not in self._points:
            where = f"config.yaml: experiments.{name}"
            fixed = {"dataset": dataset, "seed": self.seed}
            self._points[key] = [expand(grid, fixed, where) for grid in self.grids(name, scale)]
            identities = [tuple(point.__dict__.values()) for grid in self._points[key] for point in grid]
            if len(set(identities)) < len(identities):
                raise BadInput(f"{where}: a factor lists the same value twice, or `also` repeats a point.")
        if self.threads == "all" or processors is None:
            return [point for grid in self._points[key] for point in grid]
        kept = [kept_threads({point.threads for point in grid}, processors) for grid in self._points[key]]
        pairs = zip(self._points[key], kept, strict=True)
        return [point for grid, threads in pairs for point in grid if point.threads in threads]

    def definition(self, name: str, scale: Scale, dataset: str) -> dict[str, Any]:
        """The definition of an experiment without its rounds and repeats, as JSON types; the same on every machine.

        Rounds and repeats say how precisely a point is measured, not what is measured: rounds with different repeats
        estimate the same quantity, and each counts as one value. Their values differ in precision, and equal weights
        keep the mean unbiased. So an experiment keeps its measured rounds when its repeats change. An experiment that
        uses the runs of another has the definition of the other.
        """
        first, *also = self.grids(self.source(name), scale)
        further = {"also": also} if also else {}
        return {"dataset": dataset, "factors": first, **further, "scale": scale, "seed": self.seed}

    def reference(self, name: str, scale: Scale, dataset: str) -> ExperimentRef:
        """The experiment as its run files name it, with its definition."""
        definition = self.definition(name, scale, dataset)
        return ExperimentRef(name=name, scale=scale, definition_sha256=sha256_of(definition), definition=definition)

    def definition_id(self, name: str, scale: Scale) -> str:
        """A short name of the definition, for paths: 12 hex digits."""
        return sha256_of(self.definition(name, scale, self.dataset))[:12]


def load_study(path: Path) -> Study:
    """Read and validate config.yaml, including every point of every experiment at every scale."""
    return check_study(read_yaml(path), path.name)


def check_study(raw: Any, where: str = "config.yaml") -> Study:
    """Validate a parsed config.yaml, and return the study that it describes."""
    study = document(Study, raw, where)
    _check_factors(study, where)
    for name in study.experiments:
        rounds, at_most = study.rounds_of(name, "full"), study.rounds_at_most_of(name, "full")
        if at_most < rounds:
            raise BadInput(
                f"{where}: experiments.{name}: rounds_at_most is {at_most}, but must not be below its rounds, {rounds}."
            )
    for scale in SCALES:
        for name in study.at(scale):
            if scale == "full" or study.grids(name, scale) != study.grids(name, "full"):
                _check_one_value_per_process(study.points(name, scale, "mnist"), f"{where}: experiments.{name}")
    for name in study.experiments:
        _check_only(study, name, f"{where}: experiments.{name}")
    return study


def _check_factors(study: Study, where: str) -> None:
    """Raise BadInput for the name of a factor that does not exist, or a factor without values."""
    places: list[tuple[str, Mapping[str, Any]]] = [("defaults", study.defaults)]
    for name, experiment in study.experiments.items():
        place, quick = f"experiments.{name}", experiment.quick
        places += [(f"{place}.factors", experiment.factors), (f"{place}.only", experiment.only)]
        places += [(f"{place}.also", changes) for changes in experiment.also]
        places += [(f"{place}.quick.factors", quick.factors)]
        places += [(f"{place}.quick.also", changes) for changes in quick.also or []]
    for place, factors in places:
        for factor, values in factors.items():
            if factor not in FACTORS:
                raise unknown(f"factor in {where}, {place}:", factor, FACTORS)
            if values == []:
                raise BadInput(f"{where}: {place}: {factor} has no value.")


def _check_one_value_per_process(points: Iterable[TrialSpec], where: str) -> None:
    for factor in PER_PROCESS:
        values = dict.fromkeys(getattr(point, factor) for point in points if point.driver == "session")
        if len(values) > 1:
            raise BadInput(
                f"{where}: {factor} has the values {', '.join(map(str, values))}, but TensorFlow makes its pools of "
                "threads once per process, and a round is one process: use a separate experiment for each value."
            )


def _check_only(study: Study, name: str, where: str) -> None:
    """Raise BadInput for a value in `only` that no run has: the experiment would draw nothing after hours of runs."""
    points = study.points(study.source(name), "full", "mnist")
    for factor, values in study.experiments[name].shown()["only"].items():
        existing = dict.fromkeys(getattr(point, factor) for point in points)
        for value in values:
            if value not in existing:
                valid = ", ".join(str(item) for item in existing if item is not None) or "none"
                raise BadInput(f"{where}.only: no run has {factor} {value}; valid: {valid}.")
