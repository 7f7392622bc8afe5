"""The journal keeps finished trials through a kill at any byte, and readers never change it."""

from __future__ import annotations

from pathlib import Path

from tests.support.sample_runs import sample_runs
from tmflow.runfile import record
from tmflow.runner.journal import Journal


def test_finish_makes_the_run_file_in_planned_order(tmp_path: Path) -> None:
    runs = sample_runs()[:4]
    journal = Journal(tmp_path / "round-001.jsonl")
    for run in reversed(runs):
        journal.append(run)
    journal.finish()
    ordinals = [run.ordinal for run in record.read(journal.run_file)]
    assert ordinals == sorted(ordinals)
    assert not journal.path.exists()


def test_kill_at_any_byte_of_a_write(tmp_path: Path) -> None:
    runs = sample_runs()[:3]
    first, second, third = (record.to_line(run).encode() for run in runs)
    for cut in range(0, len(second), 97):
        journal = Journal(tmp_path / f"cut-{cut}.jsonl")
        journal.path.write_bytes(first + second[:cut])
        resumed = Journal(journal.run_file)
        assert resumed.runs == runs[:1]
        assert journal.path.read_bytes() == first + second[:cut], "reading must not change the file"
        resumed.append(runs[2])
        assert journal.path.read_bytes() == first + third


def test_a_note_of_another_version_tells_nothing(tmp_path: Path) -> None:
    """Such a study continues: the trial in progress is run again, because it is not in the journal."""
    journal = Journal(tmp_path / "round-001.jsonl")
    (tmp_path / "round-001.jsonl.now").write_text(record.to_line(sample_runs()[0]))
    assert journal.under_way() is None
