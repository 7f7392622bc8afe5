"""Whose runs of which platform: the column `platform` of every table of runs.

Runs come from several sources: those that were ingested here, and those of each contribution. Anybody can make up the
runs of a contribution, so a table names the platform of each source apart: "slug" for the runs that were ingested here,
"slug@contribution" for those of a contribution. Whatever selects, groups or judges by platform keeps the sources apart.
Only a reader who asks for it sees them joined, all of them as "slug".
"""

from __future__ import annotations

from typing import NamedTuple

AT = "@"  # no slug has it
DIGITS = 16  # hex digits of a contribution's identity: too many to find a bundle that has those of another one


class PlatformKey(NamedTuple):
    """A platform by its slug, and the contribution that its runs came with; None: they were ingested here."""

    slug: str
    contribution: str | None


def key_of(slug: str, identity: str | None) -> str:
    """The key of a platform by its slug, and by the identity of the contribution that brought its runs, if one did."""
    return slug if identity is None else f"{slug}{AT}{identity[:DIGITS]}"


def parse(key: str) -> PlatformKey:
    """The parts of a key, whether there is such a platform or not."""
    slug, _, contribution = key.partition(AT)
    return PlatformKey(slug, contribution or None)


def slug_of(key: str) -> str:
    """The platform's, whatever the source."""
    return parse(key).slug


def is_local(key: str) -> bool:
    """Whether its runs were ingested here."""
    return parse(key).contribution is None
