"""A profile for data/platforms from a probe: the numbers of the machine that the emulator needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tmflow.base.errors import BadInput
from tmflow.base.files import write_text
from tmflow.base.paths import project_root
from tmflow.platform.facts import display_name, platform_facts
from tmflow.platform.profiles import Profile, profile_names
from tmflow.probe.document import Part, Probe

Value = TypeVar("Value")


def require_new_name(name: str) -> None:
    """Raise BadInput for an invalid name of a profile, or one that is taken; call it before the work."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise BadInput(f"--profile is '{name}', but should be of lower-case letters, digits and hyphens between them.")
    if name in profile_names():
        raise BadInput(
            f"--profile {name}: data/platforms/{name}.yaml exists, and runs may use it; choose another name."
        )


def profile_of(probe: Probe, name: str) -> Profile:
    """Make this machine's profile. Raises BadInput, with the reason, if the probe lacks a number that it needs."""
    facts = platform_facts()
    how = f"measured by tmflow probe {probe.tmflow} on {display_name(facts)}, {probe.started_at_utc[:10]}: "
    transactions = probe.transactions
    capacity = _require_known(transactions, transactions.capacity, "capacity")
    asynchronous = _require_known(transactions, transactions.asynchronous, "asynchronous")
    touching = _require_known(asynchronous, asynchronous.touching, "touching")
    ways = _require_known(capacity, capacity.ways, "ways")
    line = _require_known(capacity, capacity.line_bytes, "line_bytes")
    sets = _require_known(capacity, capacity.sets, "sets")
    fills = _require_known(capacity, capacity.reads_fill, "reads_fill")

    def number(value: object, unit: str, source: str) -> dict[str, Any]:
        return {"value": value, "unit": unit, "source": how + source}

    numbers: dict[str, Any] = {
        "name": name,
        "describes": display_name(facts),
        "provider": transactions.provider,
        "line": number(line, "byte", "the smallest distance at which written places use different sets, or entries"),
        "siblings": _siblings(probe, number),
        "asynchronous": number(
            touching.per_line,
            "probability per touched line",
            f"{touching.aborts} aborts for no reason in the program, among {touching.attempts} transactions that wrote "
            f"{asynchronous.lines} lines each",
        ),
    }
    if capacity.shape == "entries":
        source = (
            f"half of the transactions that write {capacity.write_lines} lines commit, at any distance of the lines"
        )
        numbers["entries"] = number(ways, "entry", source)
    else:
        numbers["cache"] = {
            "sets": number(sets, "set", f"lines {capacity.span_bytes} bytes apart are in one set, divided by the line"),
            "ways": number(ways, "way", f"{ways} lines of one set can be written, in half of the transactions"),
            "reads_fill": number(fills, "truth", _describe_fills(capacity.writes_of_a_set, capacity.reads_beside)),
        }
    return Profile.model_validate(numbers)


def _require_known(part: Part, value: Value | None, name: str) -> Value:
    if value is None:
        raise BadInput(f"no profile can be made of this machine: its {name} is not known ({part.why[name]}).")
    return value


def _siblings(probe: Probe, number: Any) -> dict[str, Any]:
    siblings = probe.transactions.siblings
    if siblings is None or siblings.sharing_threads is None:
        why = probe.transactions.why["siblings"] if siblings is None else siblings.why["sharing_threads"]
        return {
            "value": 1,
            "unit": "hardware thread",
            "source": f"estimate: no other one, because this could not be probed: {why}",
        }
    source = (
        f"{siblings.alone_lines} lines can be written alone, and {siblings.beside_transactions_lines} while another "
        "thread of the core is in transactions of half as many"
    )
    return dict(number(siblings.sharing_threads, "hardware thread", source))


def _describe_fills(writes: int | None, reads: int | None) -> str:
    written = f"after {writes} lines of a set were written, "
    if reads is None:
        return written + "reading four times as many as it has ways evicted none of them"
    return written + f"{reads} others of it can be read before one of them is evicted in half of the transactions"


def write_profile(profile: Profile) -> Path:
    """Write data/platforms/<name>.yaml, and return its path."""
    path = project_root() / "data" / "platforms" / f"{profile.name}.yaml"
    write_text(path, yaml.safe_dump(profile.as_dict(), sort_keys=False, allow_unicode=True, width=120))
    return path
