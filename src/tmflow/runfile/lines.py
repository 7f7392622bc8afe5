"""The lines of a run file, decoded as JSON but not checked against the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder
from pydantic_core import from_json

from tmflow.base.canonical_json import canonical_json
from tmflow.base.errors import BadInput

SCHEMA_VERSION = 1


class _Repeat(Struct):
    """The repeat of a run; earlier runs have none."""

    repeat: int = 1


_REPEATS = Decoder(_Repeat)


def contents(path: Path) -> bytes:
    """The bytes of a run file. Raises BadInput if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"run file {path} cannot be read: {error.strerror}.") from error


def lines(path: Path, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the position of each line of a run file, for messages, and its text. Raises BadInput if it is cut off."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"run file {path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    texts = text.split("\n")
    if texts[-1] != "":
        raise BadInput(f"run file {path} is cut off in line {len(texts)}: its last line has no end.")
    for number, line in enumerate(texts[:-1], start=1):
        yield f"run file {path}, line {number}", line


def decoded(line: str, where: str) -> dict[str, Any]:
    """Decode the JSON object of a line. Raises BadInput if it is not an object, or of a newer schema version."""
    try:
        value = from_json(line, allow_inf_nan=False)
    except ValueError:
        value = _parse(line, where)
    if not isinstance(value, dict):
        raise BadInput(f"{where}: a line holds a JSON object, a run.")
    version = value.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BadInput(
            f"{where}: schema version {version} is newer than {SCHEMA_VERSION}, the newest that this tmflow reads; "
            "install a newer tmflow."
        )
    return value


def repeats_in(path: Path) -> int:
    """How often a round ran each point: the highest repeat in its run file.

    1 for a file that is not valid; reading its runs reports the fault.
    """
    try:
        return max((run.repeat for run in _REPEATS.decode_lines(contents(path))), default=1)
    except DecodeError:
        return 1


def _parse(line: str, where: str) -> Any:
    """Parse a line with the standard library, whose errors are more exact."""

    def refuse(constant: str) -> None:
        raise BadInput(f"{where}: {constant} is not JSON; a number is finite, or null.")

    try:
        value = json.loads(line, parse_constant=refuse)
        canonical_json(value).encode()
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: not JSON ({error.msg} at column {error.colno}).") from error
    except UnicodeEncodeError as error:  # half of a surrogate pair: JSON can express it, but it is not text
        raise BadInput(f"{where}: a text is not Unicode: {error.reason}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not JSON of a run: too many levels, or a number of too many digits.") from error
    return value
