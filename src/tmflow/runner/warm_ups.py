"""What warming up took, for the study's account of its time: a line beside the run file for each warm-up of a round."""

from __future__ import annotations

import json
from pathlib import Path

from tmflow.files import writing


def note(run_file: Path, campaign_uid: str, seconds: float) -> None:
    """A warm-up of the round took so many seconds. Raises BadInput where that cannot be written."""
    path = _beside(run_file)
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"campaign": campaign_uid, "warm_up_s": round(seconds, 6)}) + "\n")


def noted_s(run_file: Path, campaign_uid: str) -> float:
    """Seconds of all warm-ups of the round that belonged to the campaign; a line cut off by a kill does not count."""
    path = _beside(run_file)
    if not path.exists():
        return 0.0
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    lines = [json.loads(line) for line in whole]
    return float(sum(line["warm_up_s"] for line in lines if line["campaign"] == campaign_uid))


def _beside(run_file: Path) -> Path:
    return run_file.with_suffix(".warm-ups")
