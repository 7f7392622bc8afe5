"""A database with runs for claims and figures of the study."""

from __future__ import annotations

from pathlib import Path

from seed import CRASH
from sqlalchemy import URL

from tests.support.claim_worlds import CLAIMS, world_runs
from tests.support.sample_runs import without_result
from tmflow.runfile import record
from tmflow.store import engine, queries
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest

SAME, FEW, ACCURACY = "softmax-same-speed", "softmax-few-commits", "power-same-accuracy"
FEW_ATTEMPTS = "softmax-few-commits-of-attempts"  # by the same runs as FEW


def claimed_database(folder: Path, *, failed: bool = False) -> URL:
    """Figures 4.1 to 4.3 on a machine with TSX, 4.7 to 4.9 on one with POWER8's transactions; measured, emulated.

    All runs are equally fast, and all transactions commit; or all runs `failed`.
    """
    url = sqlite_url(folder / "study.db")
    claims = {name: CLAIMS.claims[name] for name in (SAME, FEW, ACCURACY)}
    runs = world_runs(CLAIMS.model_copy(update={"claims": claims}))
    record.write(folder / "runs.jsonl", [without_result(run, "failed", CRASH) for run in runs] if failed else runs)
    ingest(url, [folder / "runs.jsonl"])
    return url


def platform_of(url: URL, experiment: str) -> str:
    """The slug of the platform that ran the experiment."""
    counts = queries.counts(engine.open_reader(url))
    return str(counts.loc[counts["experiment"] == experiment, "platform"].iloc[0])
