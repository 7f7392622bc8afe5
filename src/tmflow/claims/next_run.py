"""The next command for this machine, and the claims that wait for it because no measured machine can decide them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from sqlalchemy import URL, select

from tmflow.base.text import listed, several
from tmflow.bundle import format
from tmflow.bundle.reader import open_bundle
from tmflow.claims.origins import NEEDS
from tmflow.claims.schema import Claim, Claims, Hardware
from tmflow.claims.selection import CAPABILITY
from tmflow.platform.facts import is_local, platform_sha256, slug_of
from tmflow.store import engine, queries, schema
from tmflow.store.frames import Source, frame
from tmflow.store.models import Platform
from tmflow.study import native_plan

WITH_TENSORFLOW, WITHOUT = "make study", "tmflow-native probe && tmflow-native run && tmflow-native export"
HAND_OVER = "tmflow bundle export"
FEW = 4  # largest number of claims that a sentence names


class Machine(NamedTuple):
    """The facts that determine which claims a machine's runs may decide; None if unknown."""

    capability: str
    """The kind of transactions, as in the facts of a platform."""
    threads: int | None


@dataclass(frozen=True)
class KnownMachines:
    """The machines with measured runs, and whether this machine's runs are stored here and were contributed."""

    machines: list[Machine]
    measured: bool = False
    handed_over: bool = False


@dataclass(frozen=True)
class Next:
    """The command to run here, the reason, and the claims that this machine would be the first to decide."""

    command: str
    why: str
    adds: list[str]


def machine_of(facts: Mapping[str, Any], committed: int | None) -> Machine:
    """Describe a machine by its facts. committed: transactions that committed when tried; 0 means none work."""
    capability = "none" if committed == 0 else str(facts["tm_capability"])
    return Machine(capability, facts["threads_logical"])


def find_known_machines(url: URL, contributions: Path, facts: Mapping[str, Any]) -> KnownMachines:
    """Find the machines of the database, which may be absent, and of the bundles in the folder of contributions.

    Raises BadInput if one of them cannot be read.
    """
    machines: list[Machine] = []
    stored_here: set[str] = set()  # the hashes of the platforms whose measured runs are stored, and not contributed
    if schema.exists(url):
        source = engine.open_reader(url)
        measured_platforms = measured_on(queries.counts(source))
        machines += load_machines(source, measured_platforms)
        local = [key for key in measured_platforms if is_local(key)]  # the key of local runs is the slug
        stored_here.update(frame(source, select(Platform.facts_sha256).where(Platform.slug.in_(local)))["facts_sha256"])
    contributed = set()
    for path in sorted(contributions.glob("*/*.zip")):
        with open_bundle(path) as bundle:
            if platform := bundle.document(format.PLATFORM):  # a bundle without a manifest names none before its import
                machines.append(machine_of(platform["facts"], None))
                contributed.add(platform["sha256"])
    this_platform = platform_sha256(dict(facts))
    return KnownMachines(machines, this_platform in stored_here, this_platform in contributed)


def next_step(claims: Claims, here: Machine, others: KnownMachines, *, tensorflow: bool) -> Next:
    """Choose the next command for this machine; `tensorflow`: whether TensorFlow is installed."""
    native = native_plan.compiled_experiments()
    waiting = [
        name
        for name, claim in _findings(claims)
        if "measured" in claim.evidence
        and could_decide(here, claim)
        and not any(could_decide(other, claim) for other in others.machines)
        and (tensorflow or native.issuperset(claim.experiments()))
    ]
    transactions = {"rtm": "Intel's transactions", "htm": "POWER's transactions"}.get(here.capability)
    threads = (
        "no known number of hardware threads" if here.threads is None else several(here.threads, "hardware thread")
    )
    kind = f"This machine has {transactions or 'no hardware transactions'} and {threads}."
    if others.measured and not others.handed_over:
        return Next(HAND_OVER, f"{kind} Its measured runs are stored here: hand them over.", waiting)
    if waiting:
        waits = f"{several(len(waiting), 'claim')} {'waits' if len(waiting) == 1 else 'wait'} for such a machine"
        few = waiting if len(waiting) <= FEW else [*waiting[:FEW], f"{len(waiting) - FEW} more"]
        why = f"{waits}: {listed(few)}."
    elif tensorflow:
        why = "No claim waits for such a machine; its runs test whether the findings hold here."
    else:
        why = "Without TensorFlow it decides no claim; it adds the native driver's experiments."
    return Next(WITH_TENSORFLOW if tensorflow else WITHOUT, f"{kind} {why}", waiting)


class MissingMachine(NamedTuple):
    """A missing kind of machine and the ids of the claims that wait for its runs."""

    hardware: Hardware
    threads: int
    """The least number of hardware threads."""
    claims: list[str]

    def __str__(self) -> str:
        machine = NEEDS.get(self.hardware, "a machine of any kind").removeprefix("a ")
        return f"A {machine}, with at least {self.threads} hardware threads"


def load_machines(source: Source, platforms: Iterable[str]) -> list[Machine]:
    """Load the machines of these platform keys; several sources of one platform count once."""
    slugs = {slug_of(key) for key in platforms}
    facts = frame(source, select(Platform.tm_capability, Platform.threads_logical).where(Platform.slug.in_(slugs)))
    return [
        Machine(capability, None if pd.isna(threads) else int(threads))
        for capability, threads in facts.itertuples(index=False)
    ]


def measured_on(counts: pd.DataFrame) -> list[str]:
    """The keys of platforms that could decide a claim: those with measured runs at full scale."""
    could = (counts["evidence"] == "measured") & (counts["scale"] == "full")
    return sorted(counts.loc[could, "platform"].unique())


def find_missing_machines(claims: Claims, here: Sequence[Machine]) -> list[MissingMachine]:
    """Find the missing machines, most wanted first, then the smallest; `here` are the machines with measured runs."""
    waiting: dict[tuple[Hardware, int], list[str]] = {}
    for name, claim in _findings(claims):
        if not any(could_decide(machine, claim) for machine in here):
            waiting.setdefault((claim.hardware, claim.reach), []).append(name)
    missing_machines = [MissingMachine(*machine, claims=names) for machine, names in waiting.items()]
    return sorted(missing_machines, key=lambda machine: (-len(machine.claims), machine.threads, machine.hardware))


def _findings(claims: Claims) -> list[tuple[str, Claim]]:
    """The claims that runs can test, each finding once."""
    return [item for item in claims.claims.items() if item[1].checks and item[1].restates is None]


def could_decide(machine: Machine, claim: Claim) -> bool:
    """Whether runs of the machine may decide the claim."""
    has_transactions = claim.hardware == "any" or machine.capability == CAPABILITY[claim.hardware]
    return has_transactions and machine.threads is not None and machine.threads >= claim.reach
