"""What warming up took, for the study's account of its time: a line beside the run file for each process of a round."""

from __future__ import annotations

import json
from pathlib import Path


def note(run_file: Path, campaign_uid: str, seconds: float) -> None:
    """A process of the round has warmed up, in so many seconds."""
    path = _beside(run_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"campaign": campaign_uid, "warm_up_s": round(seconds, 6)}) + "\n")


def noted_s(run_file: Path, campaign_uid: str) -> float:
    """Seconds of all processes of the round that belonged to the campaign; a line cut off by a kill does not count."""
    path = _beside(run_file)
    if not path.exists():
        return 0.0
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    lines = [json.loads(line) for line in whole]
    return float(sum(line["warm_up_s"] for line in lines if line["campaign"] == campaign_uid))


def _beside(run_file: Path) -> Path:
    return run_file.with_suffix(".warm-ups")
