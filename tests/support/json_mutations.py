"""Bundles changed at the level of JSON values: types, numbers, texts, identities."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.support import hostile_values
from tests.support.changed_json import (
    DOCUMENTS,
    REMOVED,
    TWICE,
    Place,
    at_values,
    change_document,
    change_line,
    change_runs,
    compact,
    document,
    get,
    lines_of,
    paths,
    put,
    run_files,
    somewhere,
    spelled,
)
from tests.support.repacked import MANIFEST, Members, manifest_of
from tmflow.base.canonical_json import sha256_of

CONTENTS: list[Callable[[Members, Random], None]] = []
"""The kinds of change, each made in the members of a good bundle."""


def _kind(change: Callable[[Members, Random], None]) -> Callable[[Members, Random], None]:
    CONTENTS.append(change)
    return change


# Every field of every model, with every type.

_CHANGES = (*hostile_values.TYPES, REMOVED, TWICE)


def field_changed(members: Members, ordinal: int) -> None:
    """Change the fields of documents and runs one after another to each type in turn; or remove or duplicate them."""
    places = list(_fields(members))
    name, at, path = places[ordinal % len(places)]
    text = _CHANGES[(ordinal // len(places) + ordinal) % len(_CHANGES)]
    if at is None:
        members[name] = spelled(document(members, name), path, text).encode()
    else:
        lines = lines_of(members, name)
        lines[at] = spelled(json.loads(lines[at]), path, text)
        put(members, name, lines)


def _fields(members: Members) -> Iterator[tuple[str, int | None, Place]]:
    """The place of every field of documents and runs, once each."""
    for name in (MANIFEST, *(name for name in DOCUMENTS if name in members)):
        yield from ((name, None, path) for path in paths(document(members, name)))
    seen = set()
    for name in run_files(members):
        for at, line in enumerate(lines_of(members, name)):
            for path in paths(json.loads(line)):
                if path not in seen:
                    seen.add(path)
                    yield name, at, path


# Values.


@_kind
def any_value(members: Members, chance: Random) -> None:
    change_line(members, chance, somewhere(chance, hostile_values.ANY))


@_kind
def any_value_of_a_document(members: Members, chance: Random) -> None:
    change_document(members, chance, somewhere(chance, hostile_values.ANY))


@_kind
def a_number(members: Members, chance: Random) -> None:
    change_line(members, chance, at_values(chance, (int, float), hostile_values.NUMBERS))


@_kind
def a_number_of_a_document(members: Members, chance: Random) -> None:
    change_document(members, chance, at_values(chance, (int, float), hostile_values.NUMBERS))


@_kind
def a_text(members: Members, chance: Random) -> None:
    change_line(members, chance, at_values(chance, str, hostile_values.STRINGS))


@_kind
def a_text_of_a_document(members: Members, chance: Random) -> None:
    change_document(members, chance, at_values(chance, str, hostile_values.STRINGS))


@_kind
def every_text_of_a_kind(members: Members, chance: Random) -> None:
    """The same hostile text in all free texts of all runs, with correct hashes."""
    text = json.loads(chance.choice(hostile_values.STRINGS[:-3]))

    def change(run: dict[str, Any]) -> None:
        for facts in (run["platform"], run["environment"], run["software"]):
            facts |= {name: text for name in facts if isinstance(facts[name], str) and name not in _CLOSED}
        run["reason"] = run["reason"] and text

    change_runs(members, change)
    _rehash(members)


_CLOSED = {"tm_capability"}


@_kind
def deep_or_broken(members: Members, chance: Random) -> None:
    (change_line if chance.random() < 0.7 else change_document)(
        members, chance, somewhere(chance, hostile_values.BROKEN)
    )


@_kind
def a_count_that_is_off(members: Members, chance: Random) -> None:
    """A count that is off by one or doubled: types are correct, sums are not."""

    def change(run: dict[str, Any]) -> str:
        path = chance.choice([path for path in paths(run) if type(get(run, path)) is int and len(path) > 1])
        value = get(run, path)
        return spelled(run, path, str(chance.choice((value + 1, value - 1, value * 2, 0))))

    change_line(members, chance, change)


@_kind
def a_list(members: Members, chance: Random) -> None:
    def change(run: dict[str, Any]) -> str:
        path = chance.choice([path for path in paths(run) if isinstance(get(run, path), list)])
        was = get(run, path)
        new = chance.choice(
            ([], was * 2, was[:1] * 1000, was[1:], was[::-1], [was], [None], {str(i): e for i, e in enumerate(was)})
        )
        return spelled(run, path, compact(new))

    change_line(members, chance, change)


@_kind
def a_strange_key(members: Members, chance: Random) -> None:
    def change(value: Any) -> str:
        objects = [path for path in paths(value) if isinstance(get(value, path), dict)]
        holder = get(value, chance.choice([(), *objects]))
        key = json.loads(chance.choice(hostile_values.STRINGS[:-3]))
        holder[chance.choice((key, "__proto__", "__class__", "id", "rowid", "content_sha256", "contribution_id"))] = 1
        return compact(value)

    (change_line if chance.random() < 0.7 else change_document)(members, chance, change)


# Identities.


def _rehash(members: Members) -> None:
    """Recompute all hashes; platform.json becomes that of the first run."""

    def change(run: dict[str, Any]) -> None:
        run["experiment"]["definition_sha256"] = sha256_of(run["experiment"]["definition"])
        if run["backend"]:
            run["backend"]["config_sha256"] = sha256_of(run["backend"]["config"])

    change_runs(members, change)
    for name in run_files(members):
        first = json.loads(lines_of(members, name)[0])
        folder, experiment, _, file = name.split("/")
        data = members.pop(name)
        members[f"{folder}/{experiment}/{first['experiment']['definition_sha256'][:12]}/{file}"] = data
    parsed = json.loads(members["platform.json"])
    parsed |= {"facts": first["platform"], "environment": first["environment"], "sha256": sha256_of(first["platform"])}
    members["platform.json"] = compact(parsed).encode()


@_kind
def a_hashed_value(members: Members, chance: Random) -> None:
    """Change a fact, definition or setting in all runs, then correct the hashes."""
    part = chance.choice(("platform", "environment", "experiment", "backend"))
    token = chance.choice(hostile_values.TYPES + hostile_values.FINITE + hostile_values.STRINGS[:-3])
    pick = chance.random()

    def change(run: dict[str, Any]) -> None:
        if run[part] is None:
            return
        before = (part, *_HASHED.get(part, ()))
        places = sorted(paths(get(run, before)), key=str)
        run[part] = json.loads(spelled(run, (*before, *places[int(pick * len(places))]), token))[part]

    change_runs(members, change)
    _rehash(members)


_HASHED = {"experiment": ("definition",), "backend": ("config",)}


@_kind
def a_hash(members: Members, chance: Random) -> None:
    def change(value: Any) -> str:
        hashes = [p for p in paths(value) if "sha256" in str(p[-1]) and isinstance(get(value, p), str)]
        path = chance.choice(hashes or list(paths(value)))
        was = str(get(value, path))
        new = (was[:-1] + ("0" if was[-1:] != "0" else "1"), was.upper(), was + "\n", was[:12], "0" * 64, "")
        return spelled(value, path, compact(chance.choice(new)))

    (change_line if chance.random() < 0.5 else change_document)(members, chance, change)


@_kind
def a_uid(members: Members, chance: Random) -> None:
    """A run twice, another run with its uid, or an invalid uid."""
    files = run_files(members)
    source, target = lines_of(members, chance.choice(files)), chance.choice(files)
    other = json.loads(chance.choice(source))
    lines = lines_of(members, target)
    at = chance.randrange(len(lines))
    run = json.loads(lines[at])
    match chance.randrange(4):
        case 0:
            lines.append(lines[at])
        case 1:
            run["uid"] = other["uid"]
        case 2:
            run["uid"] = json.loads(chance.choice(hostile_values.STRINGS[:-3]))
        case _:
            lines.append(compact(run | {"ordinal": run["ordinal"] + 1}))
    lines[at] = compact(run)
    put(members, target, lines)


@_kind
def versions(members: Members, chance: Random) -> None:
    text = chance.choice(("2", "1000000", "0", "-1", "1.0", "true", '"1"', "null", str(2**64), "1e400", "2.0", "[1]"))
    field = chance.choice(("version", "schema_version"))
    if field == "version":
        parsed = json.loads(manifest_of(members))
        members[MANIFEST] = spelled(parsed, ("version",), text).encode()
    else:
        change_line(members, chance, lambda run: spelled(run, ("schema_version",), text))


@_kind
def other_facts(members: Members, chance: Random) -> None:
    """Some runs, platform.json, or a probe come from another machine."""
    name = chance.choice(("cpu_model", "threads_logical", "isa", "tm_capability", "memory_bytes", "a_new_fact"))
    value = chance.choice((None, "another", 1, 2**62, "rtm"))
    if chance.random() < 0.5:
        change_line(members, chance, lambda run: compact(run | {"platform": run["platform"] | {name: value}}))
    else:
        parsed = json.loads(members["platform.json"])
        parsed["facts"][name] = value
        parsed["sha256"] = sha256_of(parsed["facts"]) if chance.random() < 0.5 else parsed["sha256"]
        members["platform.json"] = compact(parsed).encode()


@_kind
def other_evidence(members: Members, chance: Random) -> None:
    evidence = chance.choice(("measured", "emulated", "simulated", "published"))
    domain = chance.choice(("wall", "simulated", "reported"))
    change_line(members, chance, lambda run: compact(run | {"evidence": evidence, "time_domain": domain}))


@_kind
def another_place(members: Members, chance: Random) -> None:
    """A run file under another experiment, definition or round."""
    name = chance.choice(run_files(members))
    folder, experiment, definition, file = name.split("/")
    new = chance.choice((
        f"{folder}/other/{definition}/{file}", f"{folder}/{experiment}/{'0' * 12}/{file}", f"logs/{file}",
        f"{folder}/{experiment}/{definition}/round-999.jsonl",
        f"{folder}/{experiment}/{definition}/round-001.0123abcd.jsonl",
        f"{experiment}.jsonl", f"{folder}/{experiment}/{definition}/round-1.jsonl",
    ))  # fmt: skip
    members[new] = members.pop(name)
