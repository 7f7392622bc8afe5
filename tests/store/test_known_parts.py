"""A line with known parts is read into structs, with the same result as through the model."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.changed_json import REMOVED, TWICE, Place, paths, spelled
from tests.support.sample_runs import CLUSTER, EMULATED, FULL, FUSED, sample_runs
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.runfile.reader import ORIGIN, SPEC, Reader
from tmflow.runfile.record import Run
from tmflow.store.rows import read_line

RUNS = [
    *sample_runs(strategies=("stm", EMULATED), threads=(2,), rounds=1, disturbed_rounds=(1,)),
    *sample_runs(strategies=(FUSED, "block_stm", "htm"), threads=(2,), rounds=1, unsupported=("htm",), **FULL),
    *sample_runs(strategies=("lock",), threads=(2,), rounds=1, **CLUSTER),
]
NUMBERS = ("0", "1", "-1", "-0", "1.0", "1e0", "-0.0", "0.5", "1e-5", "1e16", "1e400", "9223372036854775807",
           "9223372036854775808", "12345678901234567890123", "9007199254740993", "01", "1.", ".5", "NaN")  # fmt: skip
OTHERS = ("null", "true", "false", "[]", "{}", "[null]", '{"worker": 1}', '""', '"1"', '"ok"', '"\\ud800"', '"\\u0000"',
          '"\\u00e9\\n"', '"\n"', "nul", "", "1, 2", '1, "surprise": 1', REMOVED, TWICE)  # fmt: skip


def line_of(run: Run) -> str:
    return record.to_line(run).rstrip("\n")


def outcome(line: str, reader: Reader) -> str:
    """The complete outcome for a line as text that distinguishes true from 1 and 1.0; or its error."""
    try:
        read = read_line("here", line, "", reader)
    except BadInput as error:
        return str(error)
    return repr((read.content_sha256, read.row, read.details, read.origin.fields, read.spec.fields, read.backend))


def knowing(line: str) -> Reader:
    """A reader that has already read the parts of that line."""
    reader = Reader()
    read_line("here", line, "", reader)
    return reader


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.spec.strategy)
def test_lines_as_they_are_written_need_no_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    line = line_of(run)
    reader, whole = knowing(line), outcome(line, Reader())
    monkeypatch.delattr(Reader, "_read_entirely")
    assert outcome(line, reader) == whole
    assert run.content_sha256 in whole


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.spec.strategy)
def test_lines_of_an_earlier_version_need_no_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lack fields that were added later, and write the others as any JSON writer may."""
    fields = json.loads(line_of(run))
    earlier = {name: value for name, value in fields.items() if name not in Run.LATER or value}
    line = json.dumps(dict(reversed(earlier.items())), separators=(",", " : "))
    reader = knowing(line)
    monkeypatch.delattr(Reader, "_read_entirely")
    assert run.content_sha256 in outcome(line, reader)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.spec.strategy)
def test_a_change_at_any_place_comes_to_the_same(run: Run) -> None:
    line = line_of(run)
    document, reader = json.loads(line), knowing(line)
    refused = taken = 0
    for place in places(document):
        for text in (*NUMBERS, *OTHERS):
            changed = spelled(document, place, text, partial(json.dumps, sort_keys=True))
            found = outcome(changed, reader)
            assert found == outcome(changed, Reader()), f"{place}: {text}"
            is_refused = found.startswith("here: ")
            refused, taken = refused + is_refused, taken + (not is_refused)
    assert refused > taken > 100


def places(document: dict[str, Any]) -> list[Place]:
    """Every place except those inside the parts."""
    return [place for place in paths(document) if len(place) == 1 or place[0] not in (*ORIGIN, *SPEC)]


DIGITS = st.text("0123456789", min_size=1, max_size=25)
SPELT = st.builds(
    lambda sign, whole, part, power: f"{sign}{whole.lstrip('0') or '0'}{part and '.' + part}{power}",
    st.sampled_from(("", "-")), DIGITS, st.just("") | DIGITS, st.sampled_from(("", "e-5", "E+3", "e-320", "e300")),
)  # fmt: skip


@given(SPELT | st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers().map(str))
def test_any_number_comes_to_the_same(number: str) -> None:
    line = line_of(RUNS[0])
    document, reader = json.loads(line), knowing(line)
    for place in [("loop_s",), ("curve", 0, "elapsed_s"), ("curve", 0, "iteration"), ("machine", "clock_moved_s")]:
        changed = spelled(document, place, number, partial(json.dumps, sort_keys=True))
        assert outcome(changed, reader) == outcome(changed, Reader())


@given(st.text())
def test_any_text_comes_to_the_same(text: str) -> None:
    line = line_of(RUNS[0])
    document, reader = json.loads(line), knowing(line)
    for ascii_only in (True, False):
        spelt = json.dumps(text, ensure_ascii=ascii_only)
        for place in [("uid",), ("counters", 0, "variable"), ("aborts", 0, "raw_code")]:
            changed = spelled(document, place, spelt, partial(json.dumps, sort_keys=True))
            assert outcome(changed, reader) == outcome(changed, Reader())
