"""The heading of a table of verdicts: the platform and the source of its runs."""

from __future__ import annotations

from tmflow.base.errors import BadInput
from tmflow.base.text import listed, several
from tmflow.platform.facts import display_name, platform_facts, platform_sha256
from tmflow.platform.key import is_local
from tmflow.store import platform_queries
from tmflow.store.frames import Source, connected


def this_machine(source: Source) -> str | None:
    """The key of this machine's platform; None if the database has no runs.

    Raises BadInput if it has runs, but none of this machine; the message names the platforms that it has.
    """
    facts = platform_facts()
    with connected(source) as connection:
        if (here := platform_queries.local_platform(connection, platform_sha256(facts))) is not None:
            return here
        others = platform_queries.platforms(connection)
    if others.empty:
        return None
    keys = listed([str(key) for key in others["platform"]])
    raise BadInput(
        f"this machine, {display_name(facts)}, has no runs in this database; --platform NAME judges those of another "
        f"machine or of a contribution: {keys}."
    )


def heading(source: Source, platform: str | None, *, joined: bool = False) -> str:
    """Name the platform, the source of its runs, and the contributions that are left out or joined."""
    if platform is None:
        return "This database has no runs."
    with connected(source) as connection:
        platforms = platform_queries.platforms(connection, joined=joined)
        contributed = platform_queries.contributions_to(connection, platform)
    name = platforms.loc[platforms["platform"] == platform, "platform_name"].iloc[0]
    others = contributed[contributed["platform"] != platform]
    if joined:
        names = listed([f"{row.name} ({row.platform})" for row in others.itertuples(index=False)])
        joined_with = f", joined with {several(len(others), 'contribution')}: {names}" if len(others) else ""
        return f"Platform {name} ({platform}): the runs that were ingested here{joined_with}."
    source_of_runs = "the runs that were ingested here" if is_local(platform) else "the runs of this contribution"
    sentence = f"Platform {name} ({platform}): {source_of_runs}."
    if len(others):
        keys = listed([str(key) for key in others["platform"]])
        sentence += f" Contributed to this platform and judged separately: {keys}."
    return sentence
