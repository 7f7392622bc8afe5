"""Lines that break parsers, or have numbers that are none: one sentence, as for any other bad line."""

from __future__ import annotations

import json

import pytest

from tests.support.sample_runs import sample_runs
from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.runfile import reader as shared
from tmflow.runfile import record
from tmflow.runfile.reader import Reader
from tmflow.store.rows import read_line


@pytest.mark.parametrize(
    "line",
    ['{"a": ' * 5000, "[" * 300 + "]" * 300, f'{{"uid": {"1" * 5000}}}', '{"uid": 1e400}', '{"uid": "\\ud800"}', "{"],
)
def test_json_that_breaks_parsers(line: str) -> None:
    with pytest.raises(BadInput, match=r"^here: "):
        read_line("here", line, "", Reader())


def test_a_million_faults_are_told_at_once() -> None:
    document = json.loads(record.to_line(sample_runs()[0]))
    with pytest.raises(BadInput, match=r"^here: counters\.0: Input should be a valid dictionary"):
        read_line("here", json.dumps(document | {"counters": [1] * 1_000_000}), "", Reader())
    with pytest.raises(BadInput, match=r"^here: the run: 1,000,000 things are wrong with it"):
        read_line("here", json.dumps(document | {f"x{number}": 1 for number in range(1_000_000)}), "", Reader())


@pytest.mark.parametrize("at_once", [1, 1 << 30])
def test_what_is_remembered_is_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(shared, "REMEMBERED_BYTES", at_once)
    runs, reader = sample_runs(), Reader()
    read = [read_line("here", record.to_line(run), "", reader) for run in (*runs, *runs)]
    assert [run.content_sha256 for run in read] == [run.content_sha256 for run in (*runs, *runs)]


def test_parts_in_the_wrong_place_are_not_taken_for_those_of_the_run() -> None:
    """A line in which the text of a known part stands somewhere else, too."""
    first, second = sample_runs(strategies=("tf_lock",), threads=(1,), rounds=2)
    reader = Reader()
    read_line("here", record.to_line(first), "", reader)
    document = json.loads(record.to_line(second))
    hidden = {"campaign": document["campaign"], "counters": 0}
    document["experiment"]["definition"] |= hidden
    document["experiment"]["definition_sha256"] = sha256_of(document["experiment"]["definition"])
    document["campaign"] = document["campaign"] | {"uid": "campaign-2"}
    line = json.dumps({"backend": None, "experiment": document.pop("experiment"), **document}) + "\n"
    assert read_line("here", line, "", reader).origin.run.campaign.uid == "campaign-2"
    other = '"campaign": {"uid": "x", "created_at_utc": "2026-01-01T00:00:00Z"}, "reads": []'
    twice = record.to_line(first).replace('"reads": []', other)
    assert read_line("here", twice, "", reader).origin.run.campaign.uid == "x"


@pytest.mark.parametrize(("field", "number"), [("points", "1e400"), ("some_new_fact", "-1e999")])
def test_infinite_number_where_anything_is_allowed(field: str, number: str) -> None:
    line = record.to_line(sample_runs()[0]).replace(f'"{field}": ', f'"{field}": {number}, "z": ', 1)
    with pytest.raises(BadInput, match=r"^here: a number is not valid JSON: Out of range float values"):
        read_line("here", line, "", Reader())
