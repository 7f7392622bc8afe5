"""How many trials ran while something else used their machine, and how many rounds that concerns."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from tmflow.analysis.run_table import ROUND
from tmflow.base.text import several

PROCESS = ("experiment", "definition_sha256", *ROUND)


class Disturbance(NamedTuple):
    """Trials with a result on real hardware; a trial of which nobody knows is neither disturbed nor undisturbed."""

    trials: int
    disturbed: int
    unknown: int
    rounds: int
    disturbed_rounds: int
    """Rounds in which most of the trials that are known about were disturbed."""


def count_disturbed(runs: pd.DataFrame) -> Disturbance:
    """Count the runs, as of `store.queries.runs`; those that failed, or that were not measured, are left out."""
    ran = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured")]
    known = ran[ran["disturbed"].notna()]
    share = known["disturbed"].astype(bool).groupby([known[name] for name in PROCESS], dropna=False).mean()
    return Disturbance(
        trials=len(ran),
        disturbed=int(known["disturbed"].astype(bool).sum()),
        unknown=len(ran) - len(known),
        rounds=ran.groupby([*PROCESS], dropna=False).ngroups,
        disturbed_rounds=int((share > 0.5).sum()),
    )


def sentence_on(counted: Disturbance) -> str | None:
    """The counts in a sentence; None where no trial was disturbed, and that is known of every trial."""
    if counted.disturbed == counted.unknown == 0:
        return None
    trials = several(counted.trials, "trial")
    cannot = f"whether other processes used the machine is not known of {counted.unknown} of {trials}"
    if not counted.disturbed:
        return f"{cannot[0].upper()}{cannot[1:]}."
    more = f"; {cannot}" if counted.unknown else ""
    return (
        f"Other processes used the machine during {counted.disturbed} of {trials}, "
        f"and during most trials of {counted.disturbed_rounds} of {several(counted.rounds, 'round')}, "
        f"so their times are less certain{more}."
    )
