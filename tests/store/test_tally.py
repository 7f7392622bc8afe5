"""The tally of the runs of a round is updated by every ingest."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, select

from tests.support.sample_runs import EMULATED, sample_runs
from tmflow.runfile import record
from tmflow.store import engine, models
from tmflow.store.ingest import ingest


def test_the_tally_of_a_round_grows_with_it(url: URL, tmp_path: Path) -> None:
    runs = sample_runs(strategies=("tf_lock", EMULATED, "htm"), unsupported=("htm",), rounds=2)
    for number, part in enumerate((runs[:7], runs[5:], runs[5:], runs[:3])):
        file = tmp_path / f"{number}.jsonl"
        record.write(file, part)
        ingest(url, [file])
    kinds = {(run.round, run.evidence, run.status) for run in runs}
    of_kind = {kind: [r for r in runs if (r.round, r.evidence, r.status) == kind] for kind in kinds}
    tally = select(
        models.Round.number,
        models.RoundTally.evidence,
        models.RoundTally.status,
        models.RoundTally.n_runs,
        models.RoundTally.newest_run_at_utc,
    ).join(models.Round)
    with engine.open_reader(url).connect() as connection:
        tallied = {tuple(kind): (n, newest) for *kind, n, newest in connection.execute(tally)}
    assert tallied == {
        kind: (len(of_this_kind), max(run.started_at_utc for run in of_this_kind))
        for kind, of_this_kind in of_kind.items()
    }
    assert len(tallied) == 6
