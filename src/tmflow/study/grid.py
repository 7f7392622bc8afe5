"""The grid of an experiment: from lists of values of factors to the specs of its points."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tmflow.base.documents import sentence
from tmflow.base.errors import BadInput, unknown
from tmflow.native import registry
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.spec.factors import ADVISED_DRIVERS, ADVISED_FACTORS, OWN_DATA, OWNERS, SYNTHETIC, TRAINING_DRIVERS
from tmflow.spec.models import MODELS, OWN_MODEL
from tmflow.spec.process_env import tm_library
from tmflow.spec.strategies import STRATEGY_PARAMETERS, owners, parameters_of, says_whole_update
from tmflow.spec.trial import TrialSpec

# The dataset is a setting of the whole study, or follows from the model (synthetic images), and the seed of a trial
# follows from the study's. No study trains a user's own model.
FACTORS = tuple(name for name in TrialSpec.model_fields if name not in ("dataset", "seed", *ADVISED_FACTORS))

# No factor is a bool, but TrialSpec rejects one with a clearer message.
Factor = str | int | float | bool | None
# A strategy may also be a mapping: its name, and parameters of this list entry only. The spec checks their values, with
# clearer messages here too.
Entry = Factor | dict[str, Any]
Factors = dict[str, Entry | list[Entry]]
Grid = dict[str, list[Entry]]


def make_grid(defaults: Factors, factors: Factors) -> Grid:
    """The factors of a grid and the defaults that apply to any of its points, each with its list of values."""
    merged = {
        factor: values if isinstance(values, list) else [values] for factor, values in {**defaults, **factors}.items()
    }
    return {factor: values for factor, values in merged.items() if factor in factors or _has_use(factor, merged)}


def expand(grid: Grid, fixed: dict[str, Any], where: str) -> list[TrialSpec]:
    """The points of a grid, in the order of its lists; each has the `fixed` factors too.

    A factor that does not apply to a point, or that the entry of its strategy sets, does not multiply the point.
    """
    valid = registry.names()
    variants = [_variant(entry, where, valid) for entry in grid.get("strategy", [None])]
    places: dict[str, Sequence[Any]] = {**grid, "strategy": range(len(variants))}
    # The factors without an effect depend only on strategy, driver and model.
    idle_factors: dict[tuple[int, str, str], list[str]] = {}
    points = []
    for values in itertools.product(*places.values()):
        factors = dict(zip(places, values, strict=True))
        variant = variants[number := factors.pop("strategy")]
        key = (number, str(factors.get("driver")), str(factors.get("model")))
        if key not in idle_factors:
            point = {factor: [value] for factor, value in {**factors, **variant}.items()}
            idle_factors[key] = [f for f in factors if f in variant or (not _has_use(f, point) and _has_use(f, grid))]
        idle = idle_factors[key]
        if all(factors[factor] == grid[factor][0] for factor in idle):  # otherwise it repeats a point
            effective = {factor: value for factor, value in factors.items() if factor not in idle}
            points.append(_spec({**fixed, **effective, **variant}, where))
    return points


def make_spec(factors: dict[str, Any], where: str) -> TrialSpec:
    """Validate a spec and fill in the strategy's parameters; raises BadInput with factor, value and what is allowed."""
    _require_strategy(factors.get("strategy"), where, registry.names())
    return _spec(factors, where)


def kept_threads(threads: Iterable[int], processors: int) -> set[int]:
    """Select the numbers of threads that a machine with `processors` hardware threads runs under `threads: auto`.

    These are all up to twice the hardware threads, and at least the first two; higher ones are oversubscribed in the
    same way, and say nothing about scaling.
    """
    ordered = sorted(set(threads))
    within = [number for number in ordered if number <= 2 * processors]
    return set(ordered[: max(len(within), 2)])


def _has_use(factor: str, grid: Mapping[str, Sequence[Entry]]) -> bool:
    """Whether a factor applies to any strategy, driver or model of the grid; one without an owner always does."""
    kind, names = OWNERS.get(factor) or ("strategy", owners(factor))
    default = TrialSpec.model_fields["driver"].default if kind == "driver" else None
    entries = (entry.get("strategy") if isinstance(entry, dict) else entry for entry in grid.get(kind, [default]))
    return not names or any(entry in names for entry in entries)


def _variant(entry: Entry, where: str, strategies: list[str]) -> dict[str, Any]:
    """The strategy of an entry, and the parameters that the entry sets."""
    if not isinstance(entry, dict):
        return {"strategy": _require_strategy(entry, where, strategies)}
    if "strategy" not in entry:
        raise BadInput(f"{where}: an entry of strategy is {entry}, but needs the key 'strategy', the name of one.")
    valid = ["strategy", *STRATEGY_PARAMETERS.get(_require_strategy(entry["strategy"], where, strategies), ())]
    for key in entry:
        if key not in valid:
            raise unknown(f"parameter of strategy '{entry['strategy']}' in {where}:", key, valid)
    return entry


def _require_strategy(strategy: object, where: str, valid: list[str]) -> str:
    if strategy not in valid:
        raise unknown(f"strategy in {where}:", strategy, valid)
    return str(strategy)


def _spec(factors: dict[str, Any], where: str) -> TrialSpec:
    _require_trainable(factors, where)
    strategy = str(factors["strategy"])
    applicable = {name: value for name, value in factors.items() if value is not None or not owners(name)}
    if (model := MODELS.get(str(factors.get("model")))) and model.synthetic and factors.get("dataset") != OWN_DATA:
        applicable["dataset"] = SYNTHETIC
    if says_whole_update(strategy, applicable.get("chunk")):
        del applicable["chunk"]  # a spec says so by having none
    _check_profile(applicable, where)
    try:
        spec = TrialSpec.model_validate({**parameters_of(strategy, applicable.get("spending")), **applicable})
    except ValidationError as error:
        raise sentence(error, where, FACTORS) from error
    if spec.library is not None:
        return spec.model_copy(update={"library": str(tm_library(spec.library))})
    return spec


def _require_trainable(factors: Mapping[str, Any], where: str) -> None:
    """Raise BadInput for what only `tmflow advise` measures, and for a driver that is none."""
    for name, of_advice in (("driver", ADVISED_DRIVERS), ("model", (OWN_MODEL,))):
        if (value := factors.get(name)) in of_advice:
            raise BadInput(f"{where}: {name} {value} is for `tmflow advise`, which measures a user's own model.")
    if (driver := factors.get("driver")) is not None and driver not in TRAINING_DRIVERS:
        *others, last = map(repr, TRAINING_DRIVERS)
        raise BadInput(f"{where}: driver is {driver!r}, but should be {', '.join(others)} or {last}.")
    for name in ADVISED_FACTORS:
        if factors.get(name) is not None:
            raise unknown(f"factor in {where}:", name, FACTORS)


def _check_profile(factors: dict[str, Any], where: str) -> None:
    """Raise BadInput unless an emulated run has a valid profile; the spec checks all other factors."""
    profile = factors.get("profile")
    if profile is None and factors.get("provider") == "emulated":
        raise BadInput(f"{where}: provider emulated needs a profile; valid: {', '.join(profile_names())}.")
    if isinstance(profile, str):
        if profile not in profile_names():
            raise unknown(f"profile in {where}:", profile, profile_names())
        load_profile(profile)
