"""What is missing of the study, measured; and the campaign that it belongs to, as `tmflow.study.campaign` keeps it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

from tmflow.alone.plan import Experiment, Json, Study
from tmflow.alone.rounds import Round
from tmflow.base.clock import utc_now
from tmflow.base.files import require_writable, write_json
from tmflow.datasets import mnist
from tmflow.platform.facts import platform_facts, platform_sha256


def measure(
    study: Study, chosen: list[Experiment], scale: str, results: Path, processors: int, rounds: int | None
) -> None:
    """Measure the rounds that have no run file yet, and say of each how it went.

    rounds: of each experiment, in place of the study's. Raises BadInput where MNIST or the results folder cannot be
    used.
    """
    mnist.verify(mnist.obtain())
    require_writable(results)
    todo = [one for one in all_rounds(chosen, results, processors, rounds) if not one.run_file.exists()]
    if not todo:
        print("Everything is measured already.")
        return
    campaign = _begun(results, scale)
    try:
        for done, one in enumerate(todo, 1):
            one.campaign = {name: campaign[name] for name in ("uid", "created_at_utc")}
            one.run()
            statuses = ", ".join(f"{n} {status}" for status, n in sorted(one.statuses().items()))
            print(f"{done} of {len(todo)}: {one.experiment.name}, round {one.number}: {statuses}", flush=True)
    finally:
        every = all_rounds(study.at(scale), results, processors, None)
        _end(results, campaign, finished=all(one.run_file.exists() for one in every))
    print(f"Done: the runs are in {results / 'runs' / scale}.")


def all_rounds(experiments: list[Experiment], results: Path, processors: int, rounds: int | None) -> Iterator[Round]:
    """Every round of the experiments, measured or not; without a campaign yet."""
    for one in experiments:
        folder = results / "runs" / one.scale / one.name / one.definition_id
        for number in range(1, (rounds or one.rounds) + 1):
            yield Round({}, one, number, one.points_for(processors), folder / f"round-{number:03}.jsonl")


def _begun(results: Path, scale: str) -> Json:
    """This machine's unfinished campaign, else a new one, with an invocation noted."""
    path = _path(results, scale)
    platform = platform_sha256(platform_facts())
    campaign: Json = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if campaign.get("finished", True) or campaign["platform_sha256"] != platform:
        campaign = {
            "uid": str(uuid.uuid4()),
            "created_at_utc": utc_now(),
            "scale": scale,
            "platform_sha256": platform,
            "finished": False,
            "rounds": campaign.get("rounds", {}),
            "invocations": [],
        }
    campaign["invocations"].append({"started_at_utc": utc_now(), "ended_at_utc": None})
    write_json(path, campaign)
    return campaign


def _end(results: Path, campaign: Json, *, finished: bool) -> None:
    campaign["invocations"][-1]["ended_at_utc"] = utc_now()
    campaign["finished"] = finished
    write_json(_path(results, campaign["scale"]), campaign)


def _path(results: Path, scale: str) -> Path:
    return results / "runs" / scale / "campaign.json"
