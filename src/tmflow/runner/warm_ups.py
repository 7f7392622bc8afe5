"""What warming up took, for the study's account of its time: a line beside the run file for each warm-up of a round."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tmflow.base.files import writing


def note(run_file: Path, campaign_uid: str, seconds: float) -> None:
    """A warm-up of the round took so many seconds. Raises BadInput where that cannot be written."""
    path = _beside(run_file)
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"campaign": campaign_uid, "warm_up_s": round(seconds, 6)}) + "\n")


def noted_s(run_file: Path) -> Counter[str]:
    """Seconds of all warm-ups of the round, by the uid of the campaign; a line cut off by a kill does not count."""
    path = _beside(run_file)
    seconds: Counter[str] = Counter()
    if path.exists():
        *whole, _ = path.read_text(encoding="utf-8").split("\n")
        for line in map(json.loads, whole):
            seconds[line["campaign"]] += line["warm_up_s"]
    return seconds


def _beside(run_file: Path) -> Path:
    return run_file.with_suffix(".warm-ups")
