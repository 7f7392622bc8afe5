"""YAML files that people write: read without duplicate keys, and checked with one sentence per error."""

from __future__ import annotations

from collections.abc import Callable, Collection
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
    """What the file holds. Raises BadInput if it cannot be read, is not YAML, or gives a key of a mapping twice."""
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
    except ValueError as error:  # of a date that there is not
        raise BadInput(f"{path.name} holds a value that cannot be: {error}.") from error


def kept(read: Callable[[Path], Made]) -> Callable[[Path], Made]:
    """What reads a file, made to read it again only when the file has changed; what it makes is not to be changed."""

    @lru_cache(maxsize=1)
    def read_once(path: Path, changed_at_ns: int) -> Made:
        return read(path)

    return lambda path: read_once(path, path.stat().st_mtime_ns if path.exists() else 0)


class _KeyTwice(yaml.YAMLError):
    """A mapping gives a key twice, of which YAML's own loader would silently keep the last."""


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
    """A file's content, parsed, as this model has it.

    Raises BadInput that names what is wrong, where, and what is allowed.
    """
    if not isinstance(raw, dict):
        raise BadInput(f"{where} must be a mapping, not {type(raw).__name__}.")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise sentence(error, where, keys_at(model, error)) from error


def sentence(error: ValidationError, where: str, keys: Collection[str] = ()) -> BadInput:
    """The first thing that `error` found, as a `BadInput`.

    `where` names the document ("config.yaml", "tmflow train"); `keys` are the valid keys, for an unknown one.
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
            return BadInput(f"{where}: {path or 'the file'} is {value!r}, but should be a mapping.")
        case _:
            wish = first["msg"].removeprefix("Input ").removeprefix("Value ").removeprefix("String ").rstrip(".")
            return BadInput(f"{where}: {path} is {value!r}, but {wish}.")


def first_of(error: ValidationError) -> ErrorDetails:
    """The first thing that an error found. Of a million, which only ill will makes, none: telling them takes memory."""
    if error.error_count() > MANY:
        return {
            "type": "too_many",
            "loc": (),
            "msg": f"{error.error_count():,} things are wrong with it",
            "input": None,
        }
    return error.errors()[0]


def keys_at(model: type[BaseModel], error: ValidationError) -> list[str]:
    """The keys that are valid where the first error is, in a document of that model; none where any key is."""
    place: Any = model
    for part in first_of(error)["loc"][:-1]:
        place = _inside(place, part)
    return list(place.model_fields) if _is_model(place) else []


def _inside(place: Any, part: int | str) -> Any:
    """What the schema has at a part of a path: a field of a model, or what a list or a mapping holds."""
    if _is_model(place):
        field = place.model_fields.get(part)
        inner = field.annotation if field else None
    else:
        inner = (get_args(place) or (None,))[-1]
    if isinstance(inner, UnionType):  # X | None
        inner = get_args(inner)[0]
    return inner


def _is_model(place: Any) -> bool:
    return isinstance(place, type) and issubclass(place, BaseModel)
