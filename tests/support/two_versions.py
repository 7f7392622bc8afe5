"""A database in which two software versions measured one experiment: the newer one takes twice as long."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from tests.support.sample_runs import SOFTWARE, sample_runs
from tmflow.runfile import record
from tmflow.store.engine import sqlite_url
from tmflow.store.ingest import ingest

EXPERIMENT = "fig-4.1"
STRATEGIES, THREADS = ("tf_lock", "tf_nolock"), (1, 2, 4)
OLD_ROUNDS, NEW_ROUNDS = 8, 6
N_OLD, N_NEW = (rounds * len(STRATEGIES) * len(THREADS) for rounds in (OLD_ROUNDS, NEW_ROUNDS))
OLD, NEW = "tmflow 0.1.0 at 0000000000", "tmflow 0.2.0 at 1111111111"
ANOTHER_SOFTWARE = SOFTWARE.model_copy(update={"tmflow": "0.2.0", "git_commit": "1" * 40})


def two_versions(folder: Path) -> URL:
    """The database, in `folder`: campaigns "old" and "new", of one definition, on one platform."""
    url = sqlite_url(folder / "study.db")
    old = sample_runs((EXPERIMENT,), STRATEGIES, THREADS, OLD_ROUNDS, campaign="old", dataset="mnist")
    new = [
        run.model_copy(update={"software": ANOTHER_SOFTWARE, "loop_s": 2 * (run.loop_s or 0)})
        for run in sample_runs((EXPERIMENT,), STRATEGIES, THREADS, NEW_ROUNDS, campaign="new", day=9, dataset="mnist")
    ]
    for name, runs in (("old", old), ("new", new)):
        record.write(folder / f"{name}.jsonl", runs)
    ingest(url, [folder / "old.jsonl", folder / "new.jsonl"])
    return url
