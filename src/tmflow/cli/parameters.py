"""The options of strategies: one for each parameter, made from the table of parameters and the spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar, get_args

import typer

from tmflow.spec import TrialSpec
from tmflow.strategy_parameters import BUDGETS, PARAMETERS, STRATEGY_PARAMETERS, Value, owners

Command = TypeVar("Command", bound=Callable[..., None])


def with_parameters(command: Command) -> Command:
    """Typer shows, and takes, an option for each parameter of a strategy where the command has `**parameters`.

    One that is not given is None. Values are checked by the spec, which knows the strategy too.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [option for option in signature.parameters.values() if option.kind is not option.VAR_KEYWORD]
    # mypy knows no such attribute of a function, and inspect reads it.
    setattr(command, "__signature__", signature.replace(parameters=[*own, *map(_option, PARAMETERS)]))  # noqa: B010
    return command


def _option(name: str) -> inspect.Parameter:
    kind = int if int in get_args(TrialSpec.model_fields[name].annotation) else str
    option = typer.Option(None, help=_help(name))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def _help(name: str) -> str:
    """Whose parameter it is, what it means, which values there are, and which it has if not given."""
    field = TrialSpec.model_fields[name]
    words = [word for kind in get_args(field.annotation) for word in get_args(kind)]
    allowed = f" ({', '.join(words)})" if words else ""
    fallback = f"; if not given, {usual}" if (usual := _usual(name)) else ""
    return f"{', '.join(owners(name))}: {field.description}{allowed}{fallback}."


def _usual(name: str) -> str:
    """The value where none is given, and with what, if that is not always the same; "" if there is none."""
    if name == "budget":
        return ", ".join(f"{budget} with {way}" for way, budget in BUDGETS.items())
    with_value: dict[Value | None, list[str]] = {}
    for strategy in owners(name):
        with_value.setdefault(STRATEGY_PARAMETERS[strategy][name], []).append(strategy)
    if len(with_value) > 1:
        return ", ".join(f"{value} with {' and '.join(strategies)}" for value, strategies in with_value.items())
    (only,) = with_value
    return "" if only is None else str(only)
