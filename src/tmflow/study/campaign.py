"""The campaign: one invocation of the study on one machine, resumed or not.

It is stored next to the run files of its scale. While it is unfinished, the next invocation on the same machine
continues it; once it is finished, the next invocation that has anything to measure starts a new one. The commands that
repeat one of its runs or experiments are here too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tmflow.base.clock import utc_now
from tmflow.base.files import write_json
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.runfile.record import CampaignRef
from tmflow.study.config import SCALES, Scale


class Invocation(BaseModel):
    """One call of `tmflow study run` that had something to measure; without an end if it was killed."""

    model_config = ConfigDict(extra="forbid")

    started_at_utc: str
    ended_at_utc: str | None = None


class Campaign(BaseModel):
    model_config = ConfigDict(extra="forbid")

    uid: str
    created_at_utc: str
    scale: Scale
    platform_sha256: str
    finished: bool = False
    rounds: dict[str, int] = Field({}, description="by experiment/definition, where rounds were added")
    claim_rounds: dict[str, int] = Field(
        {}, description="the same, where --hours added rounds, which rounds_at_most does not limit"
    )
    invocations: list[Invocation] = []

    @property
    def ref(self) -> CampaignRef:
        return CampaignRef(uid=self.uid, created_at_utc=self.created_at_utc)


def folder(results: Path, scale: Scale) -> Path:
    """The folder of the run files and the campaign of a scale."""
    return results / "runs" / scale


def load(results: Path, scale: Scale) -> Campaign | None:
    """The last campaign of this scale, or None before the first."""
    path = folder(results, scale) / "campaign.json"
    return Campaign.model_validate_json(path.read_text(encoding="utf-8")) if path.exists() else None


def latest_scale(results: Path) -> Scale:
    """The scale of the last invocation; full before the first."""
    campaigns = [campaign for scale in SCALES if (campaign := load(results, scale)) and campaign.invocations]
    latest = max(campaigns, key=lambda campaign: campaign.invocations[-1].started_at_utc, default=None)
    return latest.scale if latest else "full"


def unfinished(results: Path, scale: Scale) -> Campaign | None:
    """This machine's unfinished campaign, which the next round continues; None if it would begin a new one."""
    campaign = load(results, scale)
    if campaign is None or campaign.finished or campaign.platform_sha256 != platform_sha256(platform_facts()):
        return None
    return campaign


def current(results: Path, scale: Scale) -> Campaign:
    """The campaign for the next round: this machine's unfinished one, else a new one."""
    campaign = unfinished(results, scale)
    if campaign is None:
        latest = load(results, scale)
        campaign = Campaign(
            uid=str(uuid.uuid4()),
            created_at_utc=utc_now(),
            scale=scale,
            platform_sha256=platform_sha256(platform_facts()),
            rounds=latest.rounds if latest else {},  # added rounds stay part of the study
            claim_rounds=latest.claim_rounds if latest else {},
        )
        save(results, campaign)
    return campaign


def begin(results: Path, scale: Scale) -> Campaign:
    """Record a new invocation in the current campaign, and return the campaign."""
    campaign = current(results, scale)
    campaign.invocations.append(Invocation(started_at_utc=utc_now()))
    save(results, campaign)
    return campaign


def end(results: Path, campaign: Campaign, *, finished: bool) -> None:
    """Record the end of the invocation that `begin` recorded, and whether every round is measured."""
    campaign.invocations[-1].ended_at_utc = utc_now()
    campaign.finished = finished
    save(results, campaign)


def close(results: Path, scale: Scale) -> None:
    """Mark the campaign as finished, because every round is measured; the next invocation starts a new one."""
    campaign = load(results, scale)
    if campaign and not campaign.finished:
        campaign.finished = True
        save(results, campaign)


def save(results: Path, campaign: Campaign) -> None:
    write_json(folder(results, campaign.scale) / "campaign.json", campaign.model_dump(mode="json"))


def set_aside(results: Path, scale: Scale) -> Path | None:
    """Move the run files of a scale to the archive, to measure everything again; None if there are none."""
    campaign = load(results, scale)
    if campaign is None:
        return None
    archive = results / "runs" / "archive" / f"{scale}-{campaign.uid[:8]}"
    archive.parent.mkdir(parents=True, exist_ok=True)
    folder(results, scale).rename(archive)
    return archive


def rerun(experiment: str, scale: str = "full") -> str:
    """The command that measures the missing rounds of one experiment, stores them and draws its figures.

    It must be run in the folder of the project.
    """
    at = "" if scale == "full" else f" --scale {quote(scale)}"
    return f".venv/bin/tmflow study run{at} {quote(experiment)}"


def add_rounds(experiments: Iterable[str]) -> str:
    """The command that adds rounds of these experiments for claims until about 8 hours have passed."""
    first, *others = experiments
    return " ".join([rerun(first), *map(quote, others), "--hours 8"])


def train_command(spec: Mapping[str, Any], round: int) -> str:
    """The `tmflow train` command with every factor of a spec that applies, and the seed of this round (from 1).

    The spec is none of a user's own model, for which there is `advise_command`.
    """
    factors = {name: value for name, value in spec.items() if value is not None}
    factors["seed"] += round - 1
    words = [f"--{name.replace('_', '-')} {quote(str(value))}" for name, value in factors.items()]
    return " ".join(["tmflow train", *words])


def advise_command(spec: Mapping[str, Any], definition: Mapping[str, Any]) -> str:
    """The `tmflow advise` command that measures a user's own model again, under every strategy.

    definition: of the run's experiment, which has the workers and the consistency of the advice: the run itself may be
    one with other workers, for comparison. Others' runs may lack them.
    """
    step_us = spec["step_us"]
    subject = "FILE.py:FUNCTION" if step_us is None else f"--variables {spec['shapes']} --step-us {step_us:.15g}"
    given = [f"--{name} {quote(str(definition[name]))}" for name in ("workers", "consistency") if name in definition]
    return " ".join(["tmflow advise", subject, *given, "--save"])
