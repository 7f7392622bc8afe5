"""Runs of one origin: of one definition of their experiment, and measured by one software.

Those of several are never pooled, for what changed in between may be all that makes a difference. Campaigns of one
origin are: another six rounds of the same are twelve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from tmflow.analysis.run_table import n_rounds, numbered
from tmflow.base.text import several
from tmflow.claims.selection import LEAST_ROUNDS
from tmflow.store.software_labels import DIGITS


class Origin(NamedTuple):
    """The runs of an experiment that have one origin, of any status."""

    experiment: str
    definition: str
    software: str
    runs: pd.DataFrame

    @property
    def rounds(self) -> int:
        """How many rounds have a result."""
        return n_rounds(self.runs, self.runs["status"] == "ok")

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "definition": self.definition,
            "software": self.software,
            "rounds": self.rounds,
            "runs": len(self.runs),
        }


def origins(runs: pd.DataFrame, experiment: str) -> list[Origin]:
    """The runs of one machine by their origin: first the one that speaks, then those that are left out.

    That is the newest with rounds enough for a verdict; where none has, the one with the most rounds, and of equals
    the newest. What its runs say plays no part in it.
    """
    number = numbered(runs, ["definition_sha256", "software"])
    several_origins = len(number) and number.max() > 0  # most machines have one: to divide the table takes its time
    parts = [runs[number == its] for its in range(number.max() + 1)] if several_origins else [runs] if len(runs) else []
    found = [
        Origin(experiment, str(part["definition_sha256"].iloc[0]), str(part["software"].iloc[0]), part)
        for part in parts
    ]
    found.sort(key=lambda origin: str(origin.runs["started_at_utc"].max()), reverse=True)
    return sorted(found, key=lambda origin: min(origin.rounds, LEAST_ROUNDS), reverse=True)


def who_speaks(found: Sequence[Origin]) -> str | None:
    """Which of several origins speaks and which are left out; None where there is nothing to leave out."""
    if len(found) < 2:
        return None
    several_definitions = len({origin.definition for origin in found}) > 1
    speaks, *others = (_rounds_of(origin, several_definitions) for origin in found)
    return f"Of {found[0].experiment} these are {speaks}; left out, as never pooled with them: {'; '.join(others)}."


def _rounds_of(origin: Origin, tell_definition: bool) -> str:
    definition = f", definition {origin.definition[:DIGITS]}" if tell_definition else ""
    rounds = several(origin.rounds, "round") if origin.rounds else "no round with a result"
    return f"{rounds} by {origin.software}{definition}"
