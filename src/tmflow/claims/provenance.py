"""Origins of runs: the definition of the experiment and the software version that measured them.

Runs of different origins are never pooled, because the change between them may cause a difference. Campaigns of one
origin are pooled: six rounds and another six make twelve.
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
    """The runs of an experiment with one origin, with any status."""

    experiment: str
    definition: str
    software: str
    runs: pd.DataFrame

    @property
    def rounds(self) -> int:
        """The number of rounds with a result."""
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
    """Split the runs of one machine by origin: first the one that is used, then those that are left out.

    The newest origin with enough rounds for a verdict is used; if none has enough, the one with the most rounds, ties
    going to the newest. The order does not depend on results.
    """
    number = numbered(runs, ["definition_sha256", "software"])
    several_origins = len(number) and number.max() > 0  # most machines have one: splitting is slow
    parts = (
        [runs[number == index] for index in range(number.max() + 1)] if several_origins else [runs] if len(runs) else []
    )
    result = [
        Origin(experiment, str(part["definition_sha256"].iloc[0]), str(part["software"].iloc[0]), part)
        for part in parts
    ]
    result.sort(key=lambda origin: str(origin.runs["started_at_utc"].max()), reverse=True)
    return sorted(result, key=lambda origin: min(origin.rounds, LEAST_ROUNDS), reverse=True)


def provenance_note(experiment_origins: Sequence[Origin]) -> str | None:
    """A sentence on the origin used and those left out; None if there is only one."""
    if len(experiment_origins) < 2:
        return None
    several_definitions = len({origin.definition for origin in experiment_origins}) > 1
    speaks, *others = (_rounds_of(origin, several_definitions) for origin in experiment_origins)
    name = experiment_origins[0].experiment
    return f"Of {name} these are {speaks}; left out, because never pooled with them: {'; '.join(others)}."


def _rounds_of(origin: Origin, tell_definition: bool) -> str:
    definition = f", definition {origin.definition[:DIGITS]}" if tell_definition else ""
    rounds = several(origin.rounds, "round") if origin.rounds else "no round with a result"
    return f"{rounds} by {origin.software}{definition}"
