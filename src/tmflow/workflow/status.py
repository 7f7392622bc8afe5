"""The status of the plan: trials done, failed and unsupported, by campaign, and how the time was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tmflow.runfile.record import CampaignRef, Run
from tmflow.runner import journal
from tmflow.study.campaign import Campaign, folder, load
from tmflow.study.plan import Plan


def status(plan: Plan, experiments: Sequence[str] | None = None) -> dict[str, Any]:
    """Count the trials of these experiments (default: all) by status, in total and by campaign, oldest first.

    Also returns the time of the last campaign's invocations in wall seconds, which are known only for that campaign.
    timed_s: inside timed loops, except those of emulated runs; warm_up_s: in warm-ups. The rest of wall_s is overhead:
    starting processes, building graphs, evaluating, storing, drawing. None before the first campaign.
    missing: the trials that are not measured yet, by experiment.
    """
    names = plan.experiments if experiments is None else experiments
    campaign = load(plan.results, plan.scale)
    last = _Part(campaign.ref if campaign else CampaignRef(uid="", created_at_utc=""))
    parts = {last.campaign.uid: last} if campaign else {}
    missing: Counter[str] = Counter()
    for experiment in names:
        missing[experiment] = plan.trials(experiment)
        for run in plan.finished_runs(experiment):
            parts.setdefault(run.campaign.uid, _Part(run.campaign)).add(run)
            missing[experiment] -= 1
    for path in (path for experiment in names for path in plan.run_files(experiment)):
        for uid, seconds in journal.warm_ups_s(path).items():
            if uid in parts:
                parts[uid].warm_up_s += seconds
    total_s = wall_s(campaign, folder(plan.results, plan.scale)) if campaign else 0.0
    return {
        "scale": plan.scale,
        "campaign": campaign.uid if campaign else None,
        "trials_planned": sum(plan.trials(experiment) for experiment in names),
        **_trials(sum((part.by_status for part in parts.values()), Counter())),
        "wall_s": round(total_s, 3),
        **last.seconds(),
        "overhead_fraction": round(1 - (last.timed_s + last.warm_up_s) / total_s, 4) if total_s else None,
        "missing": dict(+missing),
        "campaigns": [
            {**part.campaign.model_dump(), **_trials(part.by_status), **part.seconds()}
            for part in sorted(parts.values(), key=lambda part: part.campaign.created_at_utc)
        ],
    }


@dataclass
class _Part:
    """The part of the plan that a campaign has measured."""

    campaign: CampaignRef
    by_status: Counter[str] = field(default_factory=Counter)
    timed_s: float = 0.0
    warm_up_s: float = 0.0

    def add(self, run: Run) -> None:
        self.by_status[run.status] += 1
        self.timed_s += (run.loop_s or 0.0) if run.shows_time else 0.0

    def seconds(self) -> dict[str, float]:
        return {"timed_s": round(self.timed_s, 3), "warm_up_s": round(self.warm_up_s, 3)}


def _trials(by_status: Counter[str]) -> dict[str, int]:
    return {
        "trials_ok": by_status["ok"],
        "trials_failed": by_status["failed"] + by_status["timeout"] + by_status["invalid"],
        "trials_unsupported": by_status["unsupported"],
    }


def wall_s(campaign: Campaign, runs: Path) -> float:
    """Seconds of all invocations of a campaign; one that was killed counts until its last trial in `runs`."""
    written = list(_times_of_files(runs))
    total = 0.0
    for index, invocation in enumerate(campaign.invocations):
        start = datetime.fromisoformat(invocation.started_at_utc)
        if invocation.ended_at_utc:
            end = datetime.fromisoformat(invocation.ended_at_utc)
        else:
            following = campaign.invocations[index + 1 : index + 2]
            limit = datetime.fromisoformat(following[0].started_at_utc) if following else datetime.now().astimezone()
            end = max((moment for moment in written if start <= moment <= limit), default=start)
        total += (end - start).total_seconds()
    return total


def _times_of_files(runs: Path) -> Iterator[datetime]:
    """Yield when each run file, journal and note was written last."""
    for path in runs.glob("**/*.jsonl*"):
        with suppress(FileNotFoundError):  # the end of a trial removes its note, and that of a round its journal
            yield datetime.fromtimestamp(path.stat().st_mtime).astimezone()
