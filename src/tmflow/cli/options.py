"""Options that commands share (strategies, models, output files), and the wording of errors."""

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
    """Replace the command's `**parameters` by an option for each factor of models and each parameter of strategies.

    An option that is not given is None. The spec checks the values, because it knows the strategy and the model.
    """
    signature = inspect.signature(command, eval_str=True)
    named_options = [option for option in signature.parameters.values() if option.kind is not option.VAR_KEYWORD]
    options = map(_option, (*MODEL_FACTORS, *PARAMETERS))
    # `inspect` reads this attribute, which mypy does not know.
    setattr(command, "__signature__", signature.replace(parameters=[*named_options, *options]))  # noqa: B010
    return command


def _option(name: str) -> inspect.Parameter:
    kinds = get_args(TrialSpec.model_fields[name].annotation)
    kind = next((kind for kind in (int, float) if kind in kinds), str)
    option = typer.Option(None, help=_help(name))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def _help(name: str) -> str:
    """The help of a parameter: its owners, meaning, allowed values and default."""
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
    """The default value, by owner if defaults differ; "" if there is none."""
    if name == "budget":
        return ", ".join(f"{budget} with {way}" for way, budget in BUDGETS.items())
    with_value: dict[Value | float | None, list[str]] = {}
    for owner, value in whose.items():
        with_value.setdefault(value, []).append(owner)
    if len(with_value) > 1:
        return ", ".join(
            f"{value} with {' and '.join(owners_of_value)}" for value, owners_of_value in with_value.items()
        )
    (only,) = with_value
    return "" if only is None else str(only)


def require_writable(path: Path, name: str = "--save") -> None:
    """Raise BadInput if the file cannot be written; call it before long work."""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{name} {path} is not a file: name a new file, or one to replace.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=path.name, dir=path.parent):
            pass
    except OSError as error:
        raise BadInput(f"{name} {path} cannot be written: {error.strerror}.") from error


def require_text(arguments: Sequence[str]) -> None:
    """Raise BadInput for an argument that is not UTF-8, which databases and JSON cannot store."""
    for number, argument in enumerate(arguments, start=1):
        try:
            os.fsencode(argument).decode()
        except UnicodeDecodeError as error:
            raise BadInput(f"argument {number} is not UTF-8 text: {error.reason} at byte {error.start}.") from error


def explain(error: typer.TyperException) -> str:
    """Explain a usage error: what is wrong, where, and what is allowed."""
    message = error.format_message()
    if "\n" in message:
        return message
    context = getattr(error, "ctx", None)  # of the kinds that are not public
    where = context.command_path if context else "tmflow"
    if isinstance(error, typer.BadParameter) and isinstance(error.__cause__, ValidationError):
        name = error.param.opts[0] if error.param else "a value"
        return f"tmflow: {where}: {name} {_explain_value(error.__cause__)}."
    return f"tmflow: {where}: {message[0].lower()}{message[1:].rstrip('.')}; `{where} --help` tells what there is."


def _explain_value(error: ValidationError) -> str:
    first = error.errors()[0]
    value = f"{first['input']!r}"
    wish = first["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix(f"{value} ").rstrip(".")
    return f"is {value}, but {wish.replace('is not one of', 'should be one of')}"
