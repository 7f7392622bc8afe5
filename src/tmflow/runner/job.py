"""The job of a round: everything that a fresh process needs to run it, and the order of its trials."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from tmflow.base.canonical_json import sha256_of
from tmflow.runfile.record import CampaignRef, ExperimentRef
from tmflow.spec.process_env import process_environment
from tmflow.spec.trial import TrialSpec

TIMED_OUT = 75  # exit code of a round after a timeout, which is in the journal; a new process runs the rest


class RoundJob(BaseModel):
    """The points of an experiment, to be run once each in an order shuffled by `order_seed`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: CampaignRef
    experiment: ExperimentRef
    number: int
    points: list[TrialSpec]
    trial_timeout_s: float
    run_file: Path
    resumed: bool = False  # the round was interrupted: its remaining trials run later than the others

    @property
    def order_seed(self) -> int:
        """Seed of the round's order, different for every round of every campaign."""
        return order_seed(self.campaign.uid, self.experiment.definition_sha256, self.number)

    def processes(self) -> list[list[TrialSpec]]:
        """The points of each process of the round; each environment that points need has a process, usually one.

        Processes and their points are in the round's order. Raises BadInput as `process_environment` does.
        """

        def needed(point: TrialSpec) -> dict[str, str]:
            return process_environment(point.strategy, point.parameters(), base={})

        return processes(self.points, self.order_seed, needed)

    def ordered_points(self) -> list[TrialSpec]:
        """The points in the round's order, one process after another."""
        return [point for points in self.processes() for point in points]


Point = TypeVar("Point")


def order_seed(campaign_uid: str, definition_sha256: str, number: int) -> int:
    """A seed that is different for every round of every campaign."""
    return int(sha256_of([campaign_uid, definition_sha256, number])[:8], 16)


def processes(
    points: Iterable[Point], seed: int, environment: Callable[[Point], Mapping[str, str]]
) -> list[list[Point]]:
    """Shuffle the points of a round, and group them by environment: one process for each, usually one in all.

    Processes and their points are in the round's order.
    """
    order = random.Random(seed)
    shuffled = list(points)
    order.shuffle(shuffled)
    by_environment: dict[frozenset[tuple[str, str]], list[Point]] = {}
    for point in shuffled:
        by_environment.setdefault(frozenset(environment(point).items()), []).append(point)
    groups = list(by_environment.values())
    order.shuffle(groups)
    return groups
