"""Options that commands share (strategies, models, output files), and the wording of errors."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TypeVar, Union, get_args, get_origin

import typer
from pydantic import ValidationError

from tmflow.base.errors import BadInput
from tmflow.spec.factors import SESSION_FACTORS
from tmflow.spec.models import MODEL_FACTORS, MODELS, models_with
from tmflow.spec.strategies import BUDGETS, PARAMETERS, STRATEGY_PARAMETERS, Value, owners
from tmflow.spec.trial import TrialSpec

Command = TypeVar("Command", bound=Callable[..., None])


def with_factors(command: Command) -> Command:
    """Let Typer show and take an option for each factor that the command has no parameter for, in its `**factors`.

    An option that is not given is None. The spec checks the values, because it knows the strategy, driver and model.
    """
    signature = inspect.signature(command, eval_str=True)
    declared = [option for option in signature.parameters.values() if option.kind is not option.VAR_KEYWORD]
    options = [_option(name) for name in _in_order_of_help() if name not in signature.parameters]
    # mypy knows no such attribute of a function, and inspect reads it.
    setattr(command, "__signature__", signature.replace(parameters=[*declared, *options]))  # noqa: B010
    return command


def _in_order_of_help() -> list[str]:
    """Factors of every trial first, then those of models, then parameters of strategies."""
    last = [*MODEL_FACTORS, *PARAMETERS]
    return [*(name for name in TrialSpec.model_fields if name not in last), *last]


def _option(name: str) -> inspect.Parameter:
    kinds = _kinds(name)
    kind = next((kind for kind in (int, float) if kind in kinds), str)
    option = typer.Option(None, help=_help(name))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def _kinds(name: str) -> tuple[object, ...]:
    """The types of a factor, without None."""
    annotation = TrialSpec.model_fields[name].annotation
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return tuple(kind for kind in kinds if kind is not NoneType)


def _help(name: str) -> str:
    """The help of a factor: what it belongs to, its meaning, allowed values and default."""
    description = TrialSpec.model_fields[name].description
    words = [word for kind in _kinds(name) for word in get_args(kind)]
    allowed = f" ({', '.join(words)})" if words else ""
    owning = {owner: value for owner, value in _owners(name).items() if owner is not None}
    whose = f"{', '.join(owning)}: " if owning else ""
    fallback = f"; if not given, {usual}" if (usual := _usual(name, _owners(name))) else ""
    text = f"{whose}{description}{allowed}{fallback}."
    return text if owning else f"{text[0].upper()}{text[1:]}"


def _owners(name: str) -> dict[str | None, Value | float | None]:
    """What the factor belongs to, each with its value where none is given; None stands for every trial."""
    if name in SESSION_FACTORS:
        return {"session": SESSION_FACTORS[name]}
    defaults: dict[str | None, Value | float | None] = {
        strategy: STRATEGY_PARAMETERS[strategy][name] for strategy in owners(name)
    }
    defaults |= {model: MODELS[model].factors[name] for model in models_with(name)}
    return defaults or {None: TrialSpec.model_fields[name].default}


def _usual(name: str, owning: Mapping[str | None, Value | float | None]) -> str:
    """The default value, by owner if defaults differ; "" if there is none."""
    if name == "budget":
        return ", ".join(f"{budget} with {way}" for way, budget in BUDGETS.items())
    with_value: dict[Value | float | None, list[str]] = {}
    for owner, value in owning.items():
        with_value.setdefault(value, []).append(str(owner))
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
