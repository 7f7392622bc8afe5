"""Options that commands share: of strategies and models, where to save, and how errors read."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_args

import typer
from pydantic import ValidationError

from tmflow.base.errors import BadInput
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


def require_writable(path: Path, name: str = "--save") -> None:
    """Before the work, so that its result has a place to go. Raises BadInput if there is none."""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{name} {path} is not a file: name a new file, or one to replace.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=path.name, dir=path.parent):
            pass
    except OSError as error:
        raise BadInput(f"{name} {path} cannot be written: {error.strerror}.") from error


def require_text(arguments: Sequence[str]) -> None:
    """Raise BadInput for an argument that is not UTF-8: no database and no JSON can keep it."""
    for number, argument in enumerate(arguments, start=1):
        try:
            os.fsencode(argument).decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"argument {number} is not UTF-8 text: {error.reason} at byte {error.start}.") from error


def explained(error: typer.TyperException) -> str:
    """What is wrong, where, and what is allowed. A command that needs an argument and has none is told its help."""
    message = error.format_message()
    if "\n" in message:
        return message
    context = getattr(error, "ctx", None)  # of the kinds that are not public
    where = context.command_path if context else "tmflow"
    if isinstance(error, typer.BadParameter) and isinstance(error.__cause__, ValidationError):
        name = error.param.opts[0] if error.param else "a value"
        return f"tmflow: {where}: {name} {_but(error.__cause__)}."
    return f"tmflow: {where}: {message[0].lower()}{message[1:].rstrip('.')}; `{where} --help` tells what there is."


def _but(error: ValidationError) -> str:
    first = error.errors()[0]
    value = f"{first['input']!r}"
    wish = first["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix(f"{value} ").rstrip(".")
    return f"is {value}, but {wish.replace('is not one of', 'should be one of')}"
