"""Rules on the origin of a run: the bundle's machine, the round of its file, existing strategies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput, hint
from tmflow.bundle import format
from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import Expectations
from tmflow.native.registry import consistency_by_strategy
from tmflow.runfile.reader import ReadRun
from tmflow.runfile.record import Run

_UID = re.compile("[0-9A-Za-z-]{8,64}")

# The instruction sets of vendors and of transactional features; those of other vendors are unknown.
_X86, _POWER = ("x86_64", "i686"), ("ppc64le", "ppc64")
_OF_VENDORS: Mapping[str | None, tuple[str, ...]] = {
    "GenuineIntel": _X86,
    "AuthenticAMD": _X86,
    "HygonGenuine": _X86,
    "IBM": _POWER,
}
_OF_TM: Mapping[str, tuple[str, ...]] = {"rtm": _X86, "htm": _POWER}


def require_names(run: Run, where: str) -> None:
    """Raise BadInput unless the names of a run are safe in addresses, file names and commands."""
    if not _UID.fullmatch(run.uid):
        raise BadInput(f"{where}: uid: {run.uid[:80]!r} should be 8 to 64 letters, digits and hyphens.")
    for field, name in (("experiment.name", run.experiment.name), ("campaign.uid", run.campaign.uid)):
        if not format.WORD.fullmatch(name) or len(name) > format.MAX_NAME:
            allowed = f"at most {format.MAX_NAME} letters, digits, '.', '_' and '-', and begin with none of '.' and '-'"
            raise BadInput(f"{where}: {field}: {name[:80]!r} should be {allowed}.")


def strategy(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The strategy exists in this version of tmflow, which otherwise cannot interpret the numbers."""
    if not expectations.strategy_exists:
        valid = consistency_by_strategy()
        guess = hint(expectations.spec.strategy, valid)
        yield Fault(
            "spec.strategy",
            f"unknown strategy {expectations.spec.strategy!r}{guess}; known: {', '.join(valid)}. "
            "A newer tmflow may know it.",
        )


def machine(facts: Mapping[str, Any], platform_sha256: str | None) -> Iterator[Fault]:
    """The platform of a run is that of the bundle; not checked if the bundle names none."""
    if platform_sha256 is not None and (facts_sha256 := sha256_of(facts)) != platform_sha256:
        yield Fault(
            "platform",
            f"its facts have the hash {facts_sha256}, and those of platform.json {platform_sha256}: another machine.",
        )


def processor(facts: Mapping[str, Any]) -> Iterator[Fault]:
    """The vendor makes processors of the instruction set; a user-mode emulator reports the host's vendor."""
    isa, vendor, tm = facts["isa"], facts.get("cpu_vendor"), facts["tm_capability"]
    of_vendor = _OF_VENDORS.get(vendor, (isa,))
    if isa not in of_vendor:
        text = f"{isa!r}, but {vendor} makes {of_vendor[0]}: an emulator ran it, and measured only itself."
        yield Fault("platform.isa", text)
    if isa not in _OF_TM.get(tm, (isa,)):
        yield Fault("platform.tm_capability", f"{tm!r}, which no processor of {isa} has.")


class Place(NamedTuple):
    """The experiment and the round in the name of a run file."""

    experiment: str
    round: int


def place_of(member: str) -> Place | None:
    """The place of a run file, from its name; None for names outside the naming scheme."""
    if not format.RUNS.fullmatch(member):
        return None
    _, experiment, _, file = member.split("/")
    return Place(experiment, int(file[len("round-") :].partition(".")[0]))


def in_place(run: Run, place: Place | None) -> Iterator[Fault]:
    """A run is in the file of its experiment and round."""
    if place is None:
        return
    if run.experiment.name != place.experiment:
        yield Fault("experiment.name", f"{run.experiment.name!r} in a file of {place.experiment!r}.")
    if run.round != place.round:
        yield Fault("round", f"{run.round} in the file of round {place.round}.")
