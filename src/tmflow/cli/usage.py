"""What Typer finds wrong with a command line, in one sentence of ours."""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer
from pydantic import ValidationError

from tmflow.base.errors import BadInput


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
