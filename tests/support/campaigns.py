"""A database of campaigns with known changes: in one of them a strategy became slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from tests.support.sample_runs import SOFTWARE, sample_runs
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest

EXPERIMENT = "fig-4.10"
STRATEGIES = ("lock", "nolock")


def campaign(
    day: int,
    slower: float = 1.0,
    strategies: Sequence[str | Mapping[str, Any]] = STRATEGIES,
    threads: Sequence[int] = (1, 2),
    experiment: str = EXPERIMENT,
    **changes: Any,
) -> list[Run]:
    """The runs of a campaign of this day, by a commit of its own; `nolock` takes `slower` times as long."""
    software = SOFTWARE.model_copy(update={"git_commit": f"{day:02}" * 20})
    runs = sample_runs((experiment,), strategies, threads, 6, campaign=f"campaign-{day}", day=day, **changes)
    return [
        run.model_copy(
            update={
                "software": software,
                "loop_s": run.loop_s and run.loop_s * (slower if run.spec.strategy == "nolock" else 1.0),
            }
        )
        for run in runs
    ]


def store(url: URL, folder: Path, *campaigns: list[Run]) -> URL:
    """Store campaigns in the database, from run files in `folder`."""
    files = [folder / f"campaign-{number}.jsonl" for number in range(len(campaigns))]
    for file, runs in zip(files, campaigns, strict=True):
        record.write(file, runs)
    ingest(url, files)
    return url


def campaigns_with_a_step(folder: Path, n: int, at: int, slower: float = 1.4) -> URL:
    """A database of `n` campaigns, of days 1 to n; from day `at` on, `nolock` is slower."""
    parts = [campaign(day, slower if day >= at else 1.0) for day in range(1, n + 1)]
    return store(sqlite_url(folder / "study.db"), folder, *parts)
