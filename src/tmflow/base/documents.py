"""Documents: YAML files that people write, and JSON objects, checked with one sentence per error."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tmflow.base.errors import BadInput, hint

Made = TypeVar("Made")


def read_yaml(path: Path) -> Any:
    """Parse a YAML file. Raises BadInput if it cannot be read, is not YAML, or a mapping has a key twice."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    except _KeyTwice as error:
        raise BadInput(f"{path.name}: {error}.") from error
    except yaml.YAMLError as error:
        raise BadInput(f"{path.name} is not YAML: {' '.join(str(error).split())}.") from error
    except ValueError as error:  # an impossible date
        raise BadInput(f"{path.name} holds an impossible value: {error}.") from error


def kept(read: Callable[[Path], Made]) -> Callable[[Path], Made]:
    """Cache a function that reads a file until the file changes; callers must not modify the result."""

    @lru_cache(maxsize=1)
    def read_once(path: Path, changed_at_ns: int) -> Made:
        return read(path)

    return lambda path: read_once(path, path.stat().st_mtime_ns if path.exists() else 0)


class _KeyTwice(yaml.YAMLError):
    """A mapping has a key twice; YAML's own loader would silently keep the last value."""


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise _KeyTwice(f"key '{key.value}' is given twice, in lines {lines[name]} and {line}")
                lines[name] = line
        return node


MANY = 1000
Document = TypeVar("Document", bound=BaseModel)


def document(model: type[Document], raw: Any, where: str) -> Document:
    """Validate the parsed content of a file by a model.

    Raises BadInput that names the fault, its place and the valid values.
    """
    if not isinstance(raw, dict):
        raise BadInput(f"{where} must be a mapping, not {type(raw).__name__}.")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise sentence(error, where, _keys_at(model, first_of(error)["loc"][:-1])) from error


def sentence(error: ValidationError, where: str, keys: Collection[str] = ()) -> BadInput:
    """Convert the first fault of a `ValidationError` to a `BadInput`.

    `where` names the document ("config.yaml", "tmflow train"); `keys` are the valid keys, for the message about an
    unknown one.
    """
    first = first_of(error)
    path = ".".join(str(part) for part in first["loc"])
    value = first.get("input")
    match first["type"]:
        case "extra_forbidden":
            key = str(first["loc"][-1])
            valid = f"; valid: {', '.join(sorted(keys))}" if keys else ""
            return BadInput(f"{where}: unknown key '{path}'{hint(key, keys)}{valid}.")
        case "missing":
            return BadInput(f"{where}: '{path}' is missing.")
        case "value_error":
            prefix = f"{path}: " if path else ""
            return BadInput(f"{where}: {prefix}{first['ctx']['error']}.")
        case "model_type" | "dict_type":
            return BadInput(f"{where}: {path} is {value!r}, but should be a mapping.")
        case _:
            wish = first["msg"].removeprefix("Input ").removeprefix("Value ").removeprefix("String ").rstrip(".")
            return BadInput(f"{where}: {path} is {value!r}, but {wish}.")


def first_of(error: ValidationError) -> ErrorDetails:
    """The first fault, or only the number if there are very many, as in an attack: a list would take much memory."""
    if error.error_count() > MANY:
        return {
            "type": "too_many",
            "loc": (),
            "msg": f"{error.error_count():,} things are wrong with it",
            "input": None,
        }
    return error.errors()[0]


def _keys_at(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """The valid keys at a place in a document of this model; none if any key is valid."""
    place: Any = model
    for part in path:
        if hasattr(place, "model_fields"):
            field = place.model_fields.get(part)
            place = field.annotation if field else None
        else:  # a list or a mapping
            place = (get_args(place) or (None,))[-1]
        if isinstance(place, UnionType):  # X | None
            place = get_args(place)[0]
    return list(getattr(place, "model_fields", ()))


_ADVICE = "restore a backup, or rebuild the database from the run files (`tmflow ingest`)"
_NAMED = 200  # characters of the name of a text's owner: a name in a database may have any length


def parse_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object that the database holds as text. Raises BadInput, naming it `what`, for other text."""
    what = what if len(what) <= _NAMED else f"{what[:_NAMED]}..."
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{what} is not JSON in the database: {_ADVICE}.") from error
    if not isinstance(document, dict):
        raise BadInput(f"{what} is not a JSON object in the database: {_ADVICE}.")
    return document
