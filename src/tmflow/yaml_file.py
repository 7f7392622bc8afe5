"""YAML files that people write: read as YAML is, but that a key given twice is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tmflow.errors import BadInput


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
