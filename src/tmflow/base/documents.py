"""YAML files that people write: read as YAML is, but that a key given twice is an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tmflow.base.errors import BadInput

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
