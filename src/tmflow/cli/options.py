"""Common parts of commands: options for factors, the database, output for people and programs, error messages."""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

import typer
from pydantic import ValidationError

from tmflow.base.errors import BadInput
from tmflow.base.paths import results_dir
from tmflow.spec.factors import ADVISED_FACTORS, DRIVER_FACTORS
from tmflow.spec.models import MODEL_FACTORS, MODELS, models_with
from tmflow.spec.strategies import BUDGETS, PARAMETERS, STRATEGY_PARAMETERS, Value, owners
from tmflow.spec.trial import TrialSpec

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from tmflow.datasets import Resolved

Default = Value | float | None
Command = TypeVar("Command", bound=Callable[..., None])
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DatasetOption = Annotated[str, typer.Option(help="mnist, digits, or auto: MNIST if it is available.")]


def database() -> URL:
    """The address of the database: TMFLOW_DB_URL, or study.db in the results folder."""
    from tmflow.store import engine

    return engine.url_from_env(results_dir() / "study.db")


def reader() -> Engine:
    """An engine that only reads the database."""
    from tmflow.store import engine

    return engine.open_reader(database())


def print_result(as_json: bool, document: Any, lines: Iterable[str]) -> None:
    """Print a document as JSON for programs, or its lines for people."""
    for line in [json.dumps(document, indent=1)] if as_json else lines:
        typer.echo(line)


def resolve_dataset(name: str) -> Resolved:
    """Find or download a dataset; warn if another takes its place."""
    from tmflow import datasets

    resolved = datasets.resolve(name)
    if resolved.warning:
        print(f"tmflow: {resolved.warning}", file=sys.stderr)
    return resolved


def with_factors(command: Command) -> Command:
    """Give the command a Typer option for each factor without a parameter; the values arrive in its `**factors`.

    An option that is not given is None. The spec checks the values, because it knows the strategy, driver and model.
    """
    signature = inspect.signature(command, eval_str=True)
    declared = [option for option in signature.parameters.values() if option.kind is not option.VAR_KEYWORD]
    last = [*MODEL_FACTORS, *PARAMETERS]
    names = [*(name for name in TrialSpec.model_fields if name not in last), *last]
    without = [*signature.parameters, *ADVISED_FACTORS]
    options = [_option(name) for name in names if name not in without]
    # mypy does not know this attribute of a function, which inspect reads.
    setattr(command, "__signature__", signature.replace(parameters=[*declared, *options]))  # noqa: B010
    return command


def _option(name: str) -> inspect.Parameter:
    """The option of a factor; its help has the owners, the meaning, the allowed values and the default value."""
    annotation = TrialSpec.model_fields[name].annotation
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kind = next((kind for kind in (int, float) if kind in kinds), str)
    text = str(TrialSpec.model_fields[name].description)
    if words := [word for kind in kinds for word in get_args(kind)]:
        text += f" ({', '.join(words)})"
    defaults = _defaults_by_owner(name)
    by_value: dict[Default, list[str]] = {}
    for owner, value in defaults.items():
        by_value.setdefault(value, []).append(owner)
    if name == "budget":
        text += "; if not given, " + ", ".join(f"{budget} with {way}" for way, budget in BUDGETS.items())
    elif len(by_value := {value: of for value, of in by_value.items() if value is not None} or by_value) > 1:
        text += "; if not given, " + ", ".join(f"{value} with {' and '.join(by_value[value])}" for value in by_value)
    elif (only := next(iter(by_value))) is not None:
        text += f"; if not given, {only}"
    text = f"{', '.join(defaults)}: {text}" if any(defaults) else f"{text[0].upper()}{text[1:]}"
    option = typer.Option(None, help=f"{text}.")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def _defaults_by_owner(name: str) -> dict[str, Default]:
    """The default value of a factor for each of its owners; the owner "" stands for every trial."""
    defaults: dict[str, Default] = {driver: of[name] for driver, of in DRIVER_FACTORS.items() if name in of}
    defaults |= {strategy: STRATEGY_PARAMETERS[strategy][name] for strategy in owners(name)}
    defaults |= {model: MODELS[model].factors[name] for model in models_with(name)}
    return defaults or {"": TrialSpec.model_fields[name].default}


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
    context = getattr(error, "ctx", None)  # of exception types that are not public
    where = context.command_path if context else "tmflow"
    if isinstance(error, typer.BadParameter) and isinstance(error.__cause__, ValidationError):
        name = error.param.opts[0] if error.param else "a value"
        return f"tmflow: {where}: {name} {_explain_value(error.__cause__)}."
    sentence = message[0].lower() + message[1:] + ("" if message.endswith((".", "?")) else ".")
    return f"tmflow: {where}: {sentence} See `{where} --help`."


def _explain_value(error: ValidationError) -> str:
    first = error.errors()[0]
    value = f"{first['input']!r}"
    expected = first["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix(f"{value} ").rstrip(".")
    return f"is {value}, but {expected.replace('is not one of', 'should be one of')}"
