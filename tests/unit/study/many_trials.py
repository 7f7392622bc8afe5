"""A study of very many trials, and the cost of planning it: see `--help` (docs/speed.md)."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support import command_line


def study_of(points: int) -> dict[str, Any]:
    """A config with this many points, a multiple of 60, in one experiment of one round."""
    factors = {
        "model": "mnist_softmax",
        "strategy": ["tf_lock", "lock", "nolock", "striped", "stm", "htm"],
        "threads": [1, 2, 4, 8, 16, 26, 32, 48, 64, 80],
        "batch": 1,
        "iterations": [1000 + n for n in range(points // 60)],
        "learning_rate": 0.5,
    }
    return {"rounds": 1, "experiments": {"many": {"question": "How long does planning take?", "factors": factors}}}


def main(points: int) -> None:
    began = time.monotonic()
    from tmflow.study.config import check_study
    from tmflow.study.plan import Plan

    imported = time.monotonic()
    study = check_study(study_of(points))
    checked = time.monotonic()
    with tempfile.TemporaryDirectory() as results:
        plan = Plan(study, "full", Path(results))
        trials, estimated_s = plan.trials("many"), plan.estimated_s("many")
    ended = time.monotonic()
    print(f"{trials} trials, estimated at {estimated_s / 3600:.1f} hours, planned in {ended - began:.2f} s:")
    print(f"  importing {imported - began:.2f}, checking every point {checked - imported:.2f}", end=", ")
    print(f"estimating {ended - checked:.2f}")


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("points", type=command_line.count, help="a multiple of 60")
    main(parser.parse_args().points)
