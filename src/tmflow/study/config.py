"""config.yaml: a closed schema of experiments, each a grid of factors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tmflow.errors import BadInput, unknown
from tmflow.native import registry
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.process_environment import tm_library
from tmflow.spec import BELONGS, Dataset, TrialSpec, sha256_of
from tmflow.strategy_parameters import STRATEGY_PARAMETERS, owners, parameters_of
from tmflow.validation import keys_at, sentence
from tmflow.yaml_file import read_yaml

Scale = Literal["full", "quick"]
SCALES: tuple[Scale, ...] = get_args(Scale)

# The dataset is a setting of the whole study, and the seed of a trial follows from the study's.
FACTORS = tuple(name for name in TrialSpec.model_fields if name not in ("dataset", "seed"))

# TensorFlow makes these pools of threads once in a process, for its first session, and a round is one process.
PER_PROCESS = ("intra_op_threads", "inter_op_threads")

# The driver is the session where none is given.
_USUAL: dict[str, Any] = {"driver": TrialSpec.model_fields["driver"].default}

# No factor is a bool, but TrialSpec's refusal of one is the clearer.
Factor = str | int | float | bool | None
# A strategy may also be a mapping: its name, and parameters that hold for this entry of the list alone. The spec checks
# their values: its sentences are the clearer here too.
Entry = Factor | dict[str, Any]
Factors = dict[str, Entry | list[Entry]]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class QuickExperiment(_Closed):
    """What `make quick` changes of an experiment; anything else stays as it is."""

    factors: Factors = {}


class Experiment(_Closed):
    """A named grid: the product of all values of all factors."""

    question: str = Field(description="what the experiment answers, in one sentence")
    rounds: int | None = Field(None, ge=1, le=1000, description="overrides the study's rounds")
    rounds_at_most: int | None = Field(None, ge=1, le=1000, description="overrides the study's rounds_at_most")
    factors: Factors
    quick: QuickExperiment = QuickExperiment()

    @field_validator("factors")
    @classmethod
    def _not_empty(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, values in value.items():
            if values == []:
                raise ValueError(f"{name} has no value")
        return value


class Quick(_Closed):
    rounds: int = Field(3, ge=1, le=1000)


class Study(_Closed):
    """The whole of config.yaml."""

    dataset: Literal["auto", "mnist", "digits"] = "auto"
    seed: int = Field(0, ge=0, le=2**31 - 1001)
    rounds: int = Field(6, ge=1, le=1000, description="fresh processes per experiment")
    rounds_at_most: int | None = Field(
        None, ge=1, le=1000, description="rounds are added up to here while an interval is too wide; None: never"
    )
    trial_timeout_s: float = Field(600, gt=0, description="a trial that takes longer is recorded as timeout")
    quick: Quick = Quick()
    defaults: Factors = {}
    experiments: dict[str, Experiment] = Field(min_length=1)

    @field_validator("experiments")
    @classmethod
    def _names_make_paths(cls, value: dict[str, Experiment]) -> dict[str, Experiment]:
        for name in value:
            if not name or not all(c.isalnum() or c in "-." for c in name) or not name[0].isalnum():
                raise ValueError(f"experiment name {name!r} may hold only letters, digits, '-' and '.'")
        return value

    def rounds_of(self, name: str, scale: Scale) -> int:
        """How many rounds the experiment gets at this scale."""
        return self.quick.rounds if scale == "quick" else self.experiments[name].rounds or self.rounds

    def rounds_at_most_of(self, name: str, scale: Scale) -> int:
        """How many rounds the experiment may get at this scale; at the quick one none is added."""
        if scale == "quick":
            return self.quick.rounds
        return self.experiments[name].rounds_at_most or self.rounds_at_most or self.rounds_of(name, scale)

    def grid(self, name: str, scale: Scale) -> dict[str, list[Entry]]:
        """The factors of an experiment, each with the list of its values; the study's defaults filled in.

        A default for a parameter that none of the experiment's strategies has, or for a factor that belongs to another
        driver or model, is left out.
        """
        experiment = self.experiments[name]
        own = {**experiment.factors, **(experiment.quick.factors if scale == "quick" else {})}
        merged = {
            factor: values if isinstance(values, list) else [values]
            for factor, values in {**self.defaults, **own}.items()
        }
        return {factor: values for factor, values in merged.items() if factor in own or _has_use(factor, merged)}

    def points(self, name: str, scale: Scale, dataset: Dataset) -> list[TrialSpec]:
        """The points of an experiment: the product of its factors, in the order in which they are written.

        A strategy's parameter multiplies the points of the strategies that have it, and no others; nor those of an
        entry that sets the parameter itself. So does a factor of a driver or a model: those of that driver or model.
        """
        grid = self.grid(name, scale)
        where = f"config.yaml: experiments.{name}"
        points = []
        for values in itertools.product(*grid.values()):
            factors = dict(zip(grid, values, strict=True))
            variant = _variant(factors.get("strategy"), where)
            chosen = {**factors, **variant}
            idle = [f for f in grid if f in variant or (not _applies(f, chosen) and _has_use(f, grid))]
            if all(factors[f] == grid[f][0] for f in idle if f != "strategy"):  # else it is the same point again
                own = {factor: value for factor, value in factors.items() if factor not in idle}
                points.append(make_spec({"dataset": dataset, "seed": self.seed, **own, **variant}, where))
        if len({point.sha256 for point in points}) < len(points):
            raise BadInput(f"{where}: a factor lists the same value twice.")
        return points

    def definition(self, name: str, scale: Scale, dataset: str) -> dict[str, Any]:
        """All that makes an experiment what it is, but for its number of rounds: JSON types."""
        return {"dataset": dataset, "factors": self.grid(name, scale), "scale": scale, "seed": self.seed}

    def definition_id(self, name: str, scale: Scale) -> str:
        """A short name of the definition, for paths: 12 hex digits."""
        return sha256_of(self.definition(name, scale, self.dataset))[:12]


def make_spec(factors: dict[str, Any], where: str) -> TrialSpec:
    """A checked spec, the strategy's parameters filled in; raises BadInput naming factor, value and what is allowed."""
    strategy = _known(factors.get("strategy"), where)
    given = {name: value for name, value in factors.items() if not (owners(name) and value is None)}
    _check_profile(given, where)
    try:
        spec = TrialSpec.model_validate({**parameters_of(strategy, given.get("spending")), **given})
    except ValidationError as error:
        raise sentence(error, where, FACTORS) from error
    if spec.library is not None:
        return spec.model_copy(update={"library": str(tm_library(spec.library))})
    return spec


def _known(strategy: object, where: str) -> str:
    if strategy not in registry.names():
        raise unknown(f"strategy in {where}:", strategy, registry.names())
    return str(strategy)


def _check_profile(factors: dict[str, Any], where: str) -> None:
    """An emulated run needs a profile that exists and makes sense; any other factor is for the spec to check."""
    profile = factors.get("profile")
    if profile is None and factors.get("provider") == "emulated":
        raise BadInput(f"{where}: provider emulated needs a profile; valid: {', '.join(profile_names())}.")
    if isinstance(profile, str):
        if profile not in profile_names():
            raise unknown(f"profile in {where}:", profile, profile_names())
        load_profile(profile)


def _variant(entry: Entry, where: str) -> dict[str, Any]:
    """The strategy of an entry, and the parameters that hold for it alone."""
    if not isinstance(entry, dict):
        return {"strategy": entry}
    if "strategy" not in entry:
        raise BadInput(f"{where}: an entry of strategy is {entry}, but needs the key 'strategy', the name of one.")
    valid = ["strategy", *STRATEGY_PARAMETERS.get(_known(entry["strategy"], where), ())]
    for key in entry:
        if key not in valid:
            raise unknown(f"parameter of strategy '{entry['strategy']}' in {where}:", key, valid)
    return entry


def _applies(factor: str, chosen: Mapping[str, Entry]) -> bool:
    """Whether a factor means something for these values: all do but those of other strategies, drivers and models."""
    of, its_owners = BELONGS.get(factor, ("strategy", None))
    if its_owners is not None:
        return chosen.get(of, _USUAL.get(of)) in its_owners
    return not owners(factor) or chosen.get("strategy") in owners(factor)


def _has_use(factor: str, grid: Mapping[str, list[Entry]]) -> bool:
    """Whether a factor means something for any value, of what it belongs to, that the grid has."""
    of, _ = BELONGS.get(factor, ("strategy", None))
    entries = grid.get(of, [_USUAL.get(of)])
    return any(_applies(factor, {of: entry.get("strategy") if isinstance(entry, dict) else entry}) for entry in entries)


def load_study(path: Path) -> Study:
    """Read and check config.yaml, every point of every experiment at every scale included."""
    return check_study(read_yaml(path), path.name)


def check_study(raw: Any, where: str = "config.yaml") -> Study:
    """The study that a parsed config.yaml describes."""
    if not isinstance(raw, dict):
        raise BadInput(f"{where} must be a mapping of settings, not {type(raw).__name__}.")
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        raise sentence(error, where, keys_at(Study, error)) from error
    _check_factor_names(study, where)
    _check_rounds(study, where)
    for scale in SCALES:
        for name in study.experiments:
            study.points(name, scale, "mnist")
            _check_one_value_per_process(study.grid(name, scale), f"{where}: experiments.{name}")
    return study


def _check_factor_names(study: Study, where: str) -> None:
    places = {"defaults": study.defaults}
    for name, experiment in study.experiments.items():
        places[f"experiments.{name}.factors"] = experiment.factors
        places[f"experiments.{name}.quick.factors"] = experiment.quick.factors
    for place, factors in places.items():
        for factor in factors:
            if factor not in FACTORS:
                raise unknown(f"factor in {where}, {place}:", factor, FACTORS)


def _check_rounds(study: Study, where: str) -> None:
    for name in study.experiments:
        rounds, at_most = study.rounds_of(name, "full"), study.rounds_at_most_of(name, "full")
        if at_most < rounds:
            raise BadInput(
                f"{where}: experiments.{name}: rounds_at_most is {at_most}, but must not be below its rounds, {rounds}."
            )


def _check_one_value_per_process(grid: dict[str, list[Entry]], where: str) -> None:
    for factor in PER_PROCESS:
        values = grid.get(factor, [])
        if len(values) > 1:
            raise BadInput(
                f"{where}: {factor} has the values {', '.join(map(str, values))}, but TensorFlow makes its pools of "
                "threads once per process, and a round is one process: give each value an experiment of its own."
            )
