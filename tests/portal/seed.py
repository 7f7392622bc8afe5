"""A small study with every kind of content that pages show, in a real database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from tests.support.sample_runs import EMULATED, FUSED, SOFTWARE_TM, sample_runs, without_result
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest

TRANSACTIONS = (
    "tf_lock",
    EMULATED,
    EMULATED | {"profile": "ibm-power8-s822", "spending": "study_power", "budget": 100},
    SOFTWARE_TM,
    SOFTWARE_TM | {"design": "wt", "manager": "backoff", "instrumentation": "all"},
    {"strategy": "tle", "tunables": "custom"},
)
# With both drivers and both kinds of reads, fully instrumented except `lock`; and emulated.
BEYOND = (
    *(
        variant | way
        for way in ({"driver": "native"}, {"driver": "native", "reading": "consistent"}, {"driver": "session"})
        for variant in ({"strategy": "lock"}, {"strategy": "nolock", "measures": "full"}, FUSED | {"measures": "full"})
    ),
    EMULATED | {"measures": "full"},
)
PLATFORM = {"cpu_model": "Example CPU at 3 GHz", "threads_logical": 4}
STRATEGIES = ("tf_lock", "tf_nolock", "lock", "nolock")
CRASH = "the process ended with signal 11"


def seed_database(
    folder: Path,
    scale: str = "full",
    rounds: int = 6,
    strategies: Sequence[str] = (*STRATEGIES, "htm"),
    transactions: bool = True,
    beyond: bool = False,
) -> URL:
    """A database in `folder`, with 4 hardware threads: softmax-batch-1 without curves, softmax-batch-100 with them.

    In both, `htm` is unsupported, round 2 was disturbed, and a run of `nolock` with 8 threads failed. A third
    experiment, unless turned off, has transactions: emulated ones of two machines, software ones, and glibc's. A
    fourth, on request, has both drivers, both kinds of reads, and fully instrumented runs, some of them emulated.
    """
    url = sqlite_url(folder / "study.db")
    files = []
    for batch, points in ((1, 0), (100, 4)):
        runs = sample_runs(
            (f"softmax-batch-{batch}",),
            strategies,
            (1, 2, 4, 8),
            rounds,
            scale=scale,
            campaign=f"campaign-{scale}",
            unsupported=("htm",),
            disturbed_rounds=(2,),
            platform=PLATFORM,
            batch=batch,
            curve_points=points,
        )
        files.append(folder / f"softmax-batch-{batch}-{scale}.jsonl")
        record.write(files[-1], [without_result(run, "failed", CRASH) if _is_to_fail(run) else run for run in runs])
    if transactions:
        files.append(folder / f"transactions-{scale}.jsonl")
        settings: dict[str, Any] = {"scale": scale, "campaign": f"campaign-{scale}", "platform": PLATFORM}
        settings |= {"batch": 1, "curve_points": 0}
        record.write(files[-1], sample_runs(("transactions",), TRANSACTIONS, (1, 2, 4), rounds, **settings))
    if beyond:
        files.append(folder / f"beyond-{scale}.jsonl")
        settings = {"scale": scale, "campaign": f"campaign-{scale}", "platform": PLATFORM}
        record.write(files[-1], sample_runs(("beyond",), BEYOND, (1, 2), rounds, **settings))
    ingest(url, files)
    return url


def _is_to_fail(run: Run) -> bool:
    return (run.spec.strategy, run.spec.threads, run.round) == ("nolock", 8, 1)
