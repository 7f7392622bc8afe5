"""Which machines are missing, for claims that none of those at hand can decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd
from sqlalchemy import select

from tmflow.claims.judge import NEEDS
from tmflow.claims.schema import Claim, Claims, Hardware
from tmflow.claims.selection import CAPABILITY
from tmflow.platform.key import slug_of
from tmflow.store.frames import Source, frame
from tmflow.store.models import Platform


class Machine(NamedTuple):
    """What of a machine decides which claims its runs may decide; None is not known."""

    capability: str
    """Its transactions, as in the facts of a platform."""
    threads: int | None


class Missing(NamedTuple):
    """A machine that is missing, and the claims that wait for measured runs on one, by their ids."""

    hardware: Hardware
    threads: int
    """Hardware threads that it needs at least."""
    claims: list[str]

    def __str__(self) -> str:
        machine = NEEDS.get(self.hardware, "a machine of any kind").removeprefix("a ")
        return f"A {machine}, with at least {self.threads} hardware threads"


def machines(source: Source, platforms: Iterable[str]) -> list[Machine]:
    """Those of the platforms of these keys, each once, whatever the sources of its runs."""
    slugs = {slug_of(key) for key in platforms}
    facts = frame(source, select(Platform.tm_capability, Platform.threads_logical).where(Platform.slug.in_(slugs)))
    return [
        Machine(capability, None if pd.isna(threads) else int(threads))
        for capability, threads in facts.itertuples(index=False)
    ]


def measured_on(counts: pd.DataFrame) -> list[str]:
    """The platforms, by their keys, that could decide a claim: they have measured runs at full scale."""
    could = (counts["evidence"] == "measured") & (counts["scale"] == "full")
    return sorted(counts.loc[could, "platform"].unique())


def missing(claims: Claims, here: Sequence[Machine]) -> list[Missing]:
    """First what most claims wait for, and of equals the smaller; `here` are the machines that have measured runs."""
    waiting: dict[tuple[Hardware, int], list[str]] = {}
    for name, claim in claims.claims.items():
        if not any(could_decide(machine, claim) for machine in here):
            waiting.setdefault((claim.hardware, _reach(claim)), []).append(name)
    found = [Missing(*machine, claims=names) for machine, names in waiting.items()]
    return sorted(found, key=lambda machine: (-len(machine.claims), machine.threads, machine.hardware))


def could_decide(machine: Machine, claim: Claim) -> bool:
    """Whether runs of the machine may decide the claim."""
    has_transactions = claim.hardware == "any" or machine.capability == CAPABILITY[claim.hardware]
    return has_transactions and machine.threads is not None and machine.threads >= _reach(claim)


def _reach(claim: Claim) -> int:
    """The hardware threads that it takes."""
    return max(check.predicate.reach for check in claim.checks)
