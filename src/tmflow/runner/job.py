"""A round as a piece of work: everything that a fresh process needs to run it."""

from __future__ import annotations

import random
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tmflow.runner.runfile import CampaignRef, ExperimentRef
from tmflow.spec import TrialSpec, sha256_of

TIMED_OUT = 75  # exit code of a round: a trial exceeded its time and is in the journal, the rest is for a new process


class RoundJob(BaseModel):
    """The points of an experiment, to be run once each in an order shuffled by `order_seed`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: CampaignRef
    experiment: ExperimentRef
    number: int
    points: list[TrialSpec]
    trial_timeout_s: float
    run_file: Path

    @property
    def order_seed(self) -> int:
        """Seed of the round's order: another one for every round of every campaign."""
        return int(sha256_of([self.campaign.uid, self.experiment.definition_sha256, self.number])[:8], 16)

    def ordered_points(self) -> list[TrialSpec]:
        """The points in the round's order."""
        points = list(self.points)
        random.Random(self.order_seed).shuffle(points)
        return points
