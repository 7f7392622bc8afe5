"""The lines of a run file as JSON, with the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tmflow.base.canonical_json import canonical_json
from tmflow.base.errors import BadInput

SCHEMA_VERSION = 1


def contents(path: Path) -> bytes:
    """The bytes of a run file. Raises BadInput if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"run file {path} cannot be read: {error.strerror}.") from error


def lines(path: Path, data: bytes) -> Iterator[tuple[str, str]]:
    """Of each line of a run file: where it is, in words, and its text. Raises BadInput if the file is cut off."""
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
    """The JSON object of a line, of a version that this tmflow reads, and not looked at otherwise."""
    return of_a_version(_parsed(line, where), where)


def of_a_version(value: Any, where: str) -> dict[str, Any]:
    """The object that a line's JSON should be. Raises BadInput if it is none, or of a newer version."""
    if not isinstance(value, dict):
        raise BadInput(f"{where}: a line holds a JSON object, a run.")
    version = value.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BadInput(
            f"{where}: schema version {version} is newer than {SCHEMA_VERSION}, the newest that this tmflow reads; "
            "install a newer tmflow."
        )
    return value


def _parsed(line: str, where: str) -> Any:
    """The JSON of a line; the parser of the standard library says exactly what is wrong."""

    def refuse(constant: str) -> None:
        raise BadInput(f"{where}: {constant} is not JSON; a number is finite, or null.")

    try:
        value = json.loads(line, parse_constant=refuse)
        canonical_json(value).encode()
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: not JSON ({error.msg} at column {error.colno}).") from error
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can spell but is no text
        raise BadInput(f"{where}: a text is not Unicode: {error.reason}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{where}: not JSON that anybody needs: too many levels, or a number of too many digits."
        ) from error
    return value
