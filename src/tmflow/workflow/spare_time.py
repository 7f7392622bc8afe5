"""The time that a study has left after its planned rounds (`--hours`), spent on rounds for claims."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from sqlalchemy import URL

from tmflow.analysis.stats import POWER
from tmflow.base.locks import machine_to_itself
from tmflow.base.text import listed, several
from tmflow.claims.allocation import Wish, Wishes, next_wish, wishes
from tmflow.claims.measured_runs import load_measured_runs, load_uids_joined
from tmflow.claims.schema import load_claims
from tmflow.store import engine, schema
from tmflow.study.cost_model import OUTPUTS_S, REPORT_S, SNAKEMAKE_S
from tmflow.study.plan import Plan
from tmflow.workflow.request import Request
from tmflow.workflow.stored_rounds import store_complete_rounds


class SpareTime:
    """Chooses rounds for claims until about `hours` after its creation, and remembers what was added."""

    def __init__(self, plan: Plan, request: Request, database: URL, hours: float) -> None:
        self._plan = plan
        self._experiments = request.sources(plan)
        self._database = database
        self._hours = hours
        n_drawn = len(request.experiments) or len(plan.experiments)
        self._deadline = time.monotonic() + 3600 * hours - OUTPUTS_S * n_drawn - REPORT_S
        self._added = Counter[str]()
        self._claims: list[str] = []
        self._wishes = Wishes([], Counter())
        self._stored = True

    def next_wish(self) -> Wish | None:
        """The claim that gets the next rounds; None if no claim wants any, or if none fit in the time that is left.

        Stores the complete rounds first, because the choice is made from the database, as the verdicts are. If that
        fails, `store_complete_rounds` reports it and no round is added, because the new ones would not count. No timed
        work runs meanwhile.
        """
        self._stored = store_complete_rounds(self._plan)
        if not self._stored or not schema.exists(self._database):
            return None
        with machine_to_itself():
            claims, source = load_claims(), engine.open_reader(self._database)
            runs = load_measured_runs(source, claims, self._plan.processors)
            joined = load_uids_joined(source, claims, self._plan)
            current = replace(self._plan)  # without the costs that it knew before the latest rounds
            self._wishes = wishes(claims, current, runs, joined, self._experiments)
        return next_wish(self._wishes.wanting, self._left_s())

    def describe(self, wish: Wish) -> str:
        """Say which rounds come next, and why."""
        more = several(max(wish.rounds.values()), "more round")
        spread = "" if wish.few else " at its spread"
        six = "; a verdict needs six rounds of one version of the software" if wish.few else ""
        return (
            f"one more round of {listed(list(wish.rounds))}: {wish.claim} is decided soonest, with about {more}{spread}"
            f"{six}. Time left: about {several(round(self._left_s() / 60), 'minute')}."
        )

    def record(self, wish: Wish) -> None:
        """Remember that the next rounds of the claim are measured."""
        self._added.update(wish.rounds.keys())
        if wish.claim not in self._claims:
            self._claims.append(wish.claim)

    def summary(self) -> str:
        """What was added and why, and why nothing more."""
        added = "no round"
        if self._added:
            rounds = listed([f"{several(n, 'round')} of {name}" for name, n in self._added.items()])
            added = f"{rounds}, for {listed(self._claims)}: fewer rounds than six, or than give {POWER:.0%} power"
        wanting, without = self._wishes
        why = ""
        if wanting:
            claims = listed([wish.claim for wish in wanting])
            why = f"\nNo further round fits in the time that is left; {claims} would need some."
        if without:
            reasons = "; ".join(f"{reason}: {number}" for reason, number in without.items())
            why += f"\n{'Other claims' if wanting else 'Claims'} that get no further round, by reason: {reasons}."
        if not self._stored:
            why = "\nNo more, because the rounds so far could not be stored."
        return f"--hours {self._hours:g} added {added}.{why}"

    def _left_s(self) -> float:
        """Seconds in which rounds can run; Snakemake starts before the next one."""
        return self._deadline - time.monotonic() - SNAKEMAKE_S
