"""The numbers of docs/speed.md: each names a row of a saved benchmark, and a fault is one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tmflow.analysis.stats import paired_ratio
from tmflow.base.errors import BadInput
from tmflow.benchmark.page_numbers import Numbers, Query, filled_page
from tmflow.benchmark.storage import Saved, TimedVariant, read_benchmark

CELL: dict[str, Any] = {"file": "7850-floats-2-cores", "elements": 7850, "threads": 1}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one benchmark."""
    (tmp_path / "docs" / "speed").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "docs" / "speed" / f"{CELL['file']}.json", tmp_path / "docs" / "speed")
    return tmp_path


def filled(checkout: Path, page: str, **values: dict[str, Any]) -> str:
    (checkout / "docs" / "speed.md").write_text(page)
    (checkout / "data" / "speed.yaml").write_text(yaml.safe_dump({"tables": {}, "values": values}))
    (text,) = filled_page(checkout).values()
    return text


def test_a_ratio_is_paired_within_rounds(checkout: Path) -> None:
    benchmark = read_benchmark(checkout / "docs" / "speed" / f"{CELL['file']}.json")
    assert isinstance(benchmark, Saved)
    lock, nolock = (
        next(
            row for row in benchmark.rows if isinstance(row, TimedVariant) and (row.name, row.threads) == (name, 1)
        ).us_by_round
        for name in ("lock", "nolock")
    )
    expected = paired_ratio(nolock, lock)
    assert expected is not None
    text = filled(checkout, "It is <!-- value: x -->0<!-- end -->.\n", x=CELL | {"row": "nolock", "over": "lock"})
    shown = f"{expected.estimate:.2f} [{expected.low:.2f}, {expected.high:.2f}]"
    assert text == f"It is <!-- value: x -->{shown}<!-- end -->.\n"


def test_times_and_shares_have_their_unit() -> None:
    numbers = Numbers(ROOT)
    assert numbers.text(Query(**CELL, row="htm", measure="commits", unit="%", digits=1), "x") == "5.8 %"
    assert numbers.text(Query(**CELL, row="lock", unit="us", bounds=False), "x").endswith(" us")
    one, two = (Query(**CELL | {"threads": n}, row="lock", over="lock", over_threads=1) for n in (1, 2))
    assert numbers.text(one, "x") == "1.00"
    assert numbers.text(two, "x") != "1.00"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"row": "nolokc"}, "unknown row in speed.yaml: values.x: 'nolokc' (did you mean 'nolock'?)"),
        ({"row": "lock", "over": "spinn"}, "unknown row in speed.yaml: values.x: 'spinn'"),
        ({}, "speed.yaml: values.x: 'row' is missing."),
        ({"row": "lock", "measure": "commits"}, "speed.yaml: values.x: 'lock' has no share of that kind."),
        ({"row": "memcpy"}, "speed.yaml: values.x: 'memcpy' is no update, so it has no time of one."),
        ({"row": "lock", "measure": "rest"}, "speed.yaml: values.x: no round has both times."),
        ({"row": "lock", "colour": "red"}, "colour"),
    ],
)
def test_a_fault_is_one_sentence(value: dict[str, Any], fault: str, checkout: Path) -> None:
    with pytest.raises(BadInput) as raised:
        filled(checkout, "It is <!-- value: x -->0<!-- end -->.\n", x=CELL | value)
    assert fault in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_number_that_the_page_does_not_show_is_refused(checkout: Path) -> None:
    with pytest.raises(BadInput, match=r"speed.yaml: docs/speed.md does not show 'x'"):
        filled(checkout, "Nothing.\n", x=CELL | {"row": "lock"})
