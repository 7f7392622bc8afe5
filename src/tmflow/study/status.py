"""What became of the plan: trials done, failed and unsupported, and where the time went."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from tmflow.runner import warm_ups
from tmflow.study.campaign import Campaign, folder, load
from tmflow.study.plan import Plan


def status(plan: Plan) -> dict[str, Any]:
    """Counts of trials by status, and where the time of the campaign's invocations went, in wall seconds.

    timed_s: inside timed loops, which those of emulated runs are not; warm_up_s: warming up. What is left of wall_s is
    overhead: starting processes, building graphs, evaluating, storing, drawing. None before there is a campaign.
    """
    by_status: Counter[str] = Counter()
    timed_s = warm_up_s = 0.0
    campaign = load(plan.results, plan.scale)
    uid = campaign.uid if campaign else ""
    for experiment in plan.experiments:
        for run in plan.finished_runs(experiment):
            by_status[run.status] += 1
            timed_s += (run.loop_s or 0.0) if run.shows_time and run.campaign.uid == uid else 0.0
        warm_up_s += sum(warm_ups.noted_s(path, uid) for path in plan.run_files(experiment))
    total_s = wall_s(campaign, folder(plan.results, plan.scale)) if campaign else 0.0
    return {
        "scale": plan.scale,
        "campaign": campaign.uid if campaign else None,
        "trials_planned": sum(plan.trials(experiment) for experiment in plan.experiments),
        "trials_ok": by_status["ok"],
        "trials_failed": by_status["failed"] + by_status["timeout"] + by_status["invalid"],
        "trials_unsupported": by_status["unsupported"],
        "wall_s": round(total_s, 3),
        "timed_s": round(timed_s, 3),
        "warm_up_s": round(warm_up_s, 3),
        "overhead_fraction": round(1 - (timed_s + warm_up_s) / total_s, 4) if total_s else None,
    }


def wall_s(campaign: Campaign, runs: Path) -> float:
    """Seconds of all invocations of a campaign; one that was killed counts up to the last trial it wrote in `runs`."""
    written = [datetime.fromtimestamp(path.stat().st_mtime).astimezone() for path in runs.glob("**/*.jsonl*")]
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
