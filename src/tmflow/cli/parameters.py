"""The options of strategies: one for each parameter, made from the table of parameters and the spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar, get_args

import typer

from tmflow.spec import TrialSpec
from tmflow.strategy_parameters import BUDGETS, PARAMETERS, STRATEGY_PARAMETERS, owners

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
    usual = {STRATEGY_PARAMETERS[strategy][name] for strategy in owners(name)} - {None}
    if name == "budget":
        fallback = f"; if not given, {', '.join(f'{budget} with {way}' for way, budget in BUDGETS.items())}"
    else:
        fallback = f"; if not given, {', '.join(map(str, usual))}" if usual else ""
    return f"{', '.join(owners(name))}: {field.description}{allowed}{fallback}."
