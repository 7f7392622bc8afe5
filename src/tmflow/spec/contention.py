"""What stood in the way of updates: three kinds, each counted in a unit and a histogram of its own."""

from __future__ import annotations

from typing import Literal

Kind = Literal["retries", "failed_publications", "taken_blocks"]

# The lists of a run file, in the order of native_ops/include/tmflow/measure/counters.hpp, and what their rows count.
KINDS: dict[Kind, Literal["sections", "updates"]] = {
    "retries": "sections",  # critical sections, by the attempts of their transactions that aborted
    "failed_publications": "updates",  # by their private copies that were not published
    "taken_blocks": "updates",  # by the blocks that another thread held when the update came by
}

TITLES: dict[Kind, str] = {
    "retries": "Retries of critical sections",
    "failed_publications": "Failed publications of updates",
    "taken_blocks": "Taken blocks met by updates",
}

# There was one list once, `retries`, in which these strategies counted what is another kind now.
BEFORE: dict[str, Kind] = {
    "leashed": "failed_publications",
    "striped": "taken_blocks",
    "combining": "taken_blocks",
}


def kind_of_retries(strategy: str) -> Kind:
    """What the list `retries` of a run under this strategy counts, whenever it was recorded."""
    return BEFORE.get(strategy, "retries")
