"""The documents and run lines of a bundle as JSON: extracted, changed at one place, and put back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.support.repacked import MANIFEST, Members, manifest_of

Place = tuple[str | int, ...]
Change = Callable[[Any], str]
"""What becomes of a JSON value: text that may be none."""

DOCUMENTS = ("platform.json", "campaign.json", "probe.json")
REMOVED, TWICE = "removed", "twice"
_HOLE = "a hole, to be filled with what is spelt by hand"


def compact(value: Any) -> str:
    """Canonical JSON in ASCII, which a manifest must be and a run may be."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def paths(value: Any, before: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value; of a list, only those of the first entry."""
    if before:
        yield before
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*before, key))
    elif isinstance(value, list) and value:
        yield from paths(value[0], (*before, 0))


def get(value: Any, path: Place) -> Any:
    for part in path:
        value = value[part]
    return value


def spelled(value: Any, path: Place, text: str, compact: Callable[[Any], str] = compact) -> str:
    """The JSON of a value with the text at the path replaced, removed or duplicated."""
    value = copy.deepcopy(value)
    holder = get(value, path[:-1])
    if text == REMOVED:
        del holder[path[-1]]
        return compact(value)
    if text == TWICE:
        if isinstance(holder, list):
            holder.append(holder[0])
            return compact(value)
        was = compact(holder[path[-1]])
        text = f"{was},{compact(path[-1])}:{was}"
    holder[path[-1]] = _HOLE
    return compact(value).replace(compact(_HOLE), text)


def run_files(members: Members) -> list[str]:
    return sorted(name for name in members if name.startswith("runs/"))


def lines_of(members: Members, name: str) -> list[str]:
    return members[name].decode().splitlines()


def put(members: Members, name: str, lines: list[str]) -> None:
    members[name] = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def change_line(members: Members, chance: Random, change: Callable[[dict[str, Any]], str]) -> None:
    """Replace one line of one run file by `change` of its run."""
    name = chance.choice(run_files(members))
    lines = lines_of(members, name)
    at = chance.randrange(len(lines))
    lines[at] = change(json.loads(lines[at]))
    put(members, name, lines)


def change_runs(members: Members, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change every run of the bundle."""
    for name in run_files(members):
        runs = [json.loads(line) for line in lines_of(members, name)]
        for run in runs:
            change(run)
        put(members, name, [compact(run) for run in runs])


def change_document(members: Members, chance: Random, change: Callable[[Any], str]) -> None:
    name = chance.choice([MANIFEST, *(name for name in DOCUMENTS if name in members)])
    data = manifest_of(members) if name == MANIFEST else members[name]
    members[name] = change(json.loads(data)).encode("utf-8", "surrogatepass")


def somewhere(chance: Random, texts: tuple[str, ...]) -> Callable[[Any], str]:
    """Replace the value at a random place by a random text."""
    return lambda value: spelled(value, chance.choice(list(paths(value))), chance.choice(texts))


def at_values(chance: Random, kinds: type | tuple[type, ...], texts: tuple[str, ...]) -> Callable[[Any], str]:
    """The same, at a value of this type, if there is one."""

    def change(value: Any) -> str:
        places = [path for path in paths(value) if isinstance(get(value, path), kinds)]
        return spelled(value, chance.choice(places or list(paths(value))), chance.choice(texts))

    return change


def document(members: Members, name: str) -> Any:
    return json.loads(manifest_of(members) if name == MANIFEST else members[name])
