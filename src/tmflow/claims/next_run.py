"""What to run on this machine, and which claims wait for it: those that no machine with measured runs could decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, select

from tmflow.base.text import listed, several
from tmflow.bundle import format
from tmflow.bundle.reader import open_bundle
from tmflow.claims.machines import Machine, could_decide, machines, measured_on
from tmflow.claims.schema import Claims
from tmflow.platform.facts import platform_sha256
from tmflow.platform.key import is_local
from tmflow.store import engine, queries, schema
from tmflow.store.frames import frame
from tmflow.store.models import Platform
from tmflow.study import native_plan

WITH_TENSORFLOW, WITHOUT = "make study", "tmflow-native probe && tmflow-native run && tmflow-native export"
HAND_OVER = "tmflow bundle export"
FEW = 4  # claims that a sentence names


@dataclass(frozen=True)
class Known:
    """The machines that measured runs are from; whether this one's are stored here, and handed over."""

    machines: list[Machine]
    measured: bool = False
    handed_over: bool = False


@dataclass(frozen=True)
class Next:
    """The one command to run here, why, and the claims that would have the first machine that could decide them."""

    command: str
    why: str
    adds: list[str]


def machine_of(facts: Mapping[str, Any], committed: int | None) -> Machine:
    """A machine by its facts: transactions that never commit are none. committed: of those tried, if any were."""
    capability = "none" if committed == 0 else str(facts["tm_capability"])
    return Machine(capability, facts["threads_logical"])


def known(url: URL, contributions: Path, facts: Mapping[str, Any]) -> Known:
    """Those of the database, which need not be there, and of the bundles in the folder of contributions.

    Raises BadInput where one of them cannot be read.
    """
    own, found = platform_sha256(dict(facts)), []
    measured = False
    if schema.exists(url):
        source = engine.open_reader(url)
        measured_platforms = measured_on(queries.counts(source))
        found += machines(source, measured_platforms)
        local = [key for key in measured_platforms if is_local(key)]  # the key of local runs is the slug
        hashes = frame(source, select(Platform.facts_sha256).where(Platform.slug.in_(local)))
        measured = own in set(hashes["facts_sha256"])
    contributed = list(_contributed(contributions))
    found += [machine_of(platform["facts"], None) for platform in contributed]
    return Known(found, measured, own in {platform["sha256"] for platform in contributed})


def _contributed(folder: Path) -> Iterator[dict[str, Any]]:
    """What the contributions say of their platforms; those without a manifest say nothing before they are imported."""
    for path in sorted(folder.glob("*/*.zip")):
        with open_bundle(path) as bundle:
            if platform := bundle.document(format.PLATFORM):
                yield platform


def next_step(claims: Claims, here: Machine, others: Known, *, tensorflow: bool) -> Next:
    """What to run on this machine, which has TensorFlow or not."""
    native = native_plan.compiled_experiments()
    waiting = [
        name
        for name, claim in claims.claims.items()
        if "measured" in claim.evidence
        and could_decide(here, claim)
        and not any(could_decide(other, claim) for other in others.machines)
        and (tensorflow or native.issuperset(claim.experiments()))
    ]
    if others.measured and not others.handed_over:
        return Next(HAND_OVER, f"{_kind(here)} Its measured runs are stored here: hand them over.", waiting)
    if waiting:
        waits = f"{several(len(waiting), 'claim')} {'waits' if len(waiting) == 1 else 'wait'} for such a machine"
        few = waiting if len(waiting) <= FEW else [*waiting[:FEW], f"{len(waiting) - FEW} more"]
        why = f"{_kind(here)} {waits}: {listed(few)}."
    elif tensorflow:
        why = f"{_kind(here)} No claim waits for such a machine; its runs say whether what others found holds here."
    else:
        why = f"{_kind(here)} Without TensorFlow it decides no claim; it adds the native driver's experiments."
    return Next(WITH_TENSORFLOW if tensorflow else WITHOUT, why, waiting)


def _kind(here: Machine) -> str:
    transactions = {"rtm": "Intel's transactions", "htm": "POWER's transactions"}.get(here.capability)
    threads = "no known number of hardware threads"
    if here.threads is not None:
        threads = several(here.threads, "hardware thread")
    return f"This machine has {transactions or 'no hardware transactions'} and {threads}."
