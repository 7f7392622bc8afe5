"""The campaign: one invocation of the study on one machine, resumed or not.

It is remembered beside the run files. While it is unfinished, the next invocation goes on with it; once it is finished,
the next invocation that has anything to run begins a new one.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tmflow.clock import utc_now
from tmflow.files import write_json
from tmflow.runner.runfile import CampaignRef
from tmflow.study.config import Scale


class Invocation(BaseModel):
    """One call of `tmflow study run`. An invocation that was killed has no end."""

    model_config = ConfigDict(extra="forbid")

    started_at_utc: str
    ended_at_utc: str | None = None


class Campaign(BaseModel):
    model_config = ConfigDict(extra="forbid")

    uid: str
    created_at_utc: str
    scale: Scale
    finished: bool = False
    invocations: list[Invocation] = []

    @property
    def ref(self) -> CampaignRef:
        return CampaignRef(uid=self.uid, created_at_utc=self.created_at_utc)


def path_in(results: Path) -> Path:
    return results / "runs" / "campaign.json"


def load(results: Path) -> Campaign | None:
    """The campaign that these results belong to, or None before the first."""
    path = path_in(results)
    return Campaign.model_validate_json(path.read_text(encoding="utf-8")) if path.exists() else None


def begin(results: Path, scale: Scale) -> Campaign:
    """Go on with the unfinished campaign of this scale, or begin one; either way note the invocation."""
    campaign = current(results, scale)
    campaign.invocations.append(Invocation(started_at_utc=utc_now()))
    save(results, campaign)
    return campaign


def current(results: Path, scale: Scale) -> Campaign:
    """The campaign that a round belongs to: the unfinished one of this scale, else a new one."""
    campaign = load(results)
    if campaign is None or campaign.finished or campaign.scale != scale:
        campaign = Campaign(uid=str(uuid.uuid4()), created_at_utc=utc_now(), scale=scale)
        save(results, campaign)
    return campaign


def end(results: Path, campaign: Campaign, *, finished: bool) -> None:
    """Note the end of the invocation that `begin` noted, and whether the study is complete."""
    campaign.invocations[-1].ended_at_utc = utc_now()
    campaign.finished = finished
    save(results, campaign)


def save(results: Path, campaign: Campaign) -> None:
    write_json(path_in(results), campaign.model_dump(mode="json"))
