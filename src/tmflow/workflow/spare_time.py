"""The time that a study has left after its planned rounds (`--hours`), spent on rounds for claims."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from sqlalchemy import URL

from tmflow.analysis.stats import POWER
from tmflow.base.text import listed, several
from tmflow.claims.allocation import Wish, next_wish, wishes
from tmflow.claims.measured_runs import load_measured_runs
from tmflow.claims.schema import load_claims
from tmflow.store import engine
from tmflow.store.ingest import ingest
from tmflow.study.cost_model import OUTPUTS_S
from tmflow.study.plan import Plan
from tmflow.workflow.request import Request
from tmflow.workflow.stored_rounds import complete_rounds


class SpareTime:
    """Chooses rounds for claims until about `hours` after its creation, and remembers what was added."""

    def __init__(self, plan: Plan, request: Request, database: URL, hours: float) -> None:
        self._plan = plan
        self._experiments = request.sources(plan)
        self._database = database
        self._hours = hours
        n_drawn = len(request.experiments) or len(plan.experiments)
        self._deadline = time.monotonic() + 3600 * hours - OUTPUTS_S * n_drawn
        self._added = Counter[str]()
        self._claims: list[str] = []
        self._wanting: list[Wish] = []

    def next_wish(self) -> Wish | None:
        """The claim that gets the next rounds; None if no claim wants any, or if none fit in the time that is left.

        Stores the complete rounds first: the choice is made from the database, as the verdicts are. Raises as `ingest`.
        """
        ingest(self._database, complete_rounds(self._plan))
        claims = load_claims()
        runs = load_measured_runs(engine.open_reader(self._database), claims, self._plan.processors)
        current = replace(self._plan)  # without the costs that it knew before the latest rounds
        self._wanting = wishes(claims, current, runs, self._experiments)
        return next_wish(self._wanting, self._deadline - time.monotonic())

    def describe(self, wish: Wish) -> str:
        """Say which rounds come next, and why."""
        more = several(max(wish.rounds.values()), "more round")
        return (
            f"one more round of {listed(list(wish.rounds))}: {wish.claim} is decided soonest, with about {more} at its "
            f"spread, and {several(round((self._deadline - time.monotonic()) / 60), 'minute')} are left."
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
            added = f"{rounds}: the spreads of {listed(self._claims)} left less than {POWER:.0%} power"
        why = f"No claim that further rounds can decide here needs any for a power of {POWER:.0%}."
        if self._wanting:
            claims = listed([wish.claim for wish in self._wanting])
            why = f"No further round fits in the time that is left; {claims} would need some."
        return f"--hours {self._hours:g} added {added}.\n{why}"
