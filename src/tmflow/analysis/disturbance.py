"""How many trials ran while other processes used the machine, and how many rounds they affect."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from tmflow.analysis.run_table import ROUND
from tmflow.base.text import several

PROCESS = ("experiment", "definition_sha256", *ROUND)


class Disturbance(NamedTuple):
    """Counts of the trials with a result on real hardware; `unknown` ones count neither way."""

    trials: int
    disturbed: int
    unknown: int
    rounds: int
    disturbed_rounds: int
    """Rounds in which most of the trials that could tell were disturbed."""


def count_disturbed(runs: pd.DataFrame) -> Disturbance:
    """Count the disturbed runs of a table as from `store.queries.runs`; only measured runs with a result count."""
    ran = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured")]
    monitored = ran[ran["disturbed"].notna()]
    share = monitored["disturbed"].astype(bool).groupby([monitored[name] for name in PROCESS], dropna=False).mean()
    return Disturbance(
        trials=len(ran),
        disturbed=int(monitored["disturbed"].astype(bool).sum()),
        unknown=len(ran) - len(monitored),
        rounds=ran.groupby([*PROCESS], dropna=False).ngroups,
        disturbed_rounds=int((share > 0.5).sum()),
    )


def sentence_on(counted: Disturbance) -> str | None:
    """Describe the counts in a sentence; None if every trial is known to be undisturbed."""
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
