"""The command `tmflow bench step`: real training, in fresh processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Tmflow

pytestmark = pytest.mark.slow

STEPS = ("--step", "iterations=40 test_images=100", "--step", "native: driver=native iterations=40 test_images=100")


def test_steps_of_two_drivers_are_compared_in_rounds(tmflow: Tmflow, tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    done = tmflow("bench", "step", *STEPS, "--rounds", "2", "--dataset", "digits", "--json", "--save", path)
    assert done.returncode == 0, done.stderr
    session, native = (json.loads(line) for line in done.stdout.splitlines())
    assert (session["name"], native["name"]) == ("iterations=40 test_images=100", "native")
    assert (session["factors"]["driver"], native["factors"]["driver"]) == ("session", "native")
    for row in (session, native):
        assert row["rounds"] == len(row["us_by_round"]) == 2
        assert 0 < row["us_low"] <= row["us_per_step"] <= row["us_high"]
        assert 0 <= row["accuracy"] <= 1
        assert row["ratio_to"] == session["name"]
    assert native["ratio"] == pytest.approx(native["us_per_step"] / session["us_per_step"])
    again = tmflow("bench", "report", path)
    assert again.returncode == 0, again.stderr
    assert "| native | " in again.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "tmflow: bench step needs a configuration: --step 'factor=value ...', or --targets."),
        (("--step", "threads"), "tmflow: --step 'threads': 'threads' is not of the form factor=value."),
        (("--step", "threads=1", "--reference", "x"), "tmflow: unknown reference 'x'; valid: threads=1."),
        (("--step", "threads=1", "--rounds", "0"), "tmflow: rounds is 0, but should be from 1 to 1000."),
    ],
)
def test_bad_input_is_a_sentence(tmflow: Tmflow, arguments: tuple[str, ...], says: str) -> None:
    done = tmflow("bench", "step", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [says]
