"""The options that only some strategies or models have, made from their registries and the spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar, get_args

import typer

from tmflow.spec.strategies import BUDGETS, PARAMETERS, STRATEGY_PARAMETERS, Value, owners
from tmflow.spec.trial import TrialSpec
from tmflow.training.models import MODEL_FACTORS, MODELS, models_with

Command = TypeVar("Command", bound=Callable[..., None])


def with_parameters(command: Command) -> Command:
    """Where the command has `**parameters`, Typer shows and takes an option for each factor that belongs to models, and
    for each parameter of a strategy.

    One that is not given is None. Values are checked by the spec, which knows the strategy and the model too.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [option for option in signature.parameters.values() if option.kind is not option.VAR_KEYWORD]
    options = map(_option, (*MODEL_FACTORS, *PARAMETERS))
    # mypy knows no such attribute of a function, and inspect reads it.
    setattr(command, "__signature__", signature.replace(parameters=[*own, *options]))  # noqa: B010
    return command


def _option(name: str) -> inspect.Parameter:
    kinds = get_args(TrialSpec.model_fields[name].annotation)
    kind = next((kind for kind in (int, float) if kind in kinds), str)
    option = typer.Option(None, help=_help(name))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def _help(name: str) -> str:
    """Whose parameter it is, what it means, which values there are, and which it has if not given."""
    field = TrialSpec.model_fields[name]
    words = [word for kind in get_args(field.annotation) for word in get_args(kind)]
    allowed = f" ({', '.join(words)})" if words else ""
    whose: dict[str, Value | float | None] = {
        strategy: STRATEGY_PARAMETERS[strategy][name] for strategy in owners(name)
    }
    whose |= {model: MODELS[model].factors[name] for model in models_with(name)}
    fallback = f"; if not given, {usual}" if (usual := _usual(name, whose)) else ""
    return f"{', '.join(whose)}: {field.description}{allowed}{fallback}."


def _usual(name: str, whose: Mapping[str, Value | float | None]) -> str:
    """The value where none is given, and with what, if that is not always the same; "" if there is none."""
    if name == "budget":
        return ", ".join(f"{budget} with {way}" for way, budget in BUDGETS.items())
    with_value: dict[Value | float | None, list[str]] = {}
    for owner, value in whose.items():
        with_value.setdefault(value, []).append(owner)
    if len(with_value) > 1:
        return ", ".join(f"{value} with {' and '.join(its)}" for value, its in with_value.items())
    (only,) = with_value
    return "" if only is None else str(only)
