"""Physically impossible times, counts and texts are refused, each with its field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundle.test_rules import MACHINE, RunDocument, checked, valid_run
from tmflow.base.canonical_json import sha256_of
from tmflow.bundle import format
from tmflow.bundle.rules.physical import LONGEST_TEXT

YEAR_S = 366 * 86_400.0


def lasting(seconds: float) -> Callable[[RunDocument], object]:
    """A run whose parts add up to this time."""
    return lambda run: run.update(loop_s=seconds, total_s=max(1.0, 2 * seconds), curve=[])


IMPOSSIBLE: list[tuple[Callable[[RunDocument], object], str, str]] = [
    (lasting(5e-324), "loop_s", "the steps of one worker take no less than 5e-07 s"),
    (lasting(1e-300), "loop_s", "the steps of one worker take no less than 5e-07 s"),
    (lasting(4.9e-7), "loop_s", "the steps of one worker take no less than 5e-07 s"),
    (lasting(1e300), "loop_s", "1e+300 is more than is possible"),
    (lasting(1.01 * YEAR_S), "loop_s", "is more than is possible: 3.16224e+07"),
    (lambda r: r.update(total_s=1e300), "total_s", "1e+300 is more than is possible"),
    (lambda r: r.update(setup_s=1e300, total_s=1e301), "setup_s", "1e+300 is more than is possible"),
    (lambda r: r.update(evaluation_s=1e300, total_s=1e301), "evaluation_s", "1e+300 is more than is possible"),
    (lambda r: r["counters"][0].update(lock_waited_s=1e300), "counters.0.lock_waited_s", "1e+300 is more than"),
    (lambda r: r["counters"][1].update(lock_held_s=1e6), "counters.1.lock_held_s", "1000000.0 is more than is"),
    (lambda r: r["machine"].update(load1_before=1e300), "machine.load1_before", "1e+300 is more than is possible"),
    (lambda r: r["machine"].update(load1_after=-1.0), "machine.load1_after", "-1.0 is below 0"),
    (lambda r: r["machine"].update(suspended_s=1e300), "machine.suspended_s", "1e+300 is more than is possible"),
    (lambda r: r["machine"].update(clock_moved_s=-1e300), "machine.clock_moved_s", "1e+300 is more than is possible"),
    (lambda r: r["retries"][0].update(sections=2**63 - 1), "retries.0.sections", "9223372036854775807 is more than"),
    (lambda r: r["reads"][0].update(reads=2**63 - 1), "reads.0.reads", "9223372036854775807 is more than is possible"),
    (lambda r: r["staleness"][1].update(staleness=2**63 - 1), "staleness.1.staleness", "more than is possible: 1000"),
    (lambda r: r.update(ordinal=2**63 - 1), "ordinal", "is more than is possible: 1e+07"),
    (
        lambda r: r.update(status="failed", reason="x", final_accuracy=None)
        or r["lost"][0].update(expected=2**63 - 1),
        "lost.0.expected",
        "is more than is possible: 7.84e+06",
    ),
    (
        lambda r: r.update(status="failed", reason="x" * (LONGEST_TEXT + 1), final_accuracy=None),
        "reason",
        "a text of 2,001 characters; the most allowed are 2,000",
    ),
    (lambda r: r["software"].update(cflags="x" * (LONGEST_TEXT + 1)), "software.cflags", "a text of 2,001 characters"),
    (lambda r: r["environment"].update(more=["y" * 100] * 2001), "environment", "names and texts have"),
    (lambda r: r["reads"][0].update(variable="x" * 3000), "reads.0.variable", "a text of 3,000 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "field", "said"), IMPOSSIBLE)
def test_what_no_machine_gives_is_refused(
    change: Callable[[RunDocument], object], field: str, said: str, tmp_path: Path
) -> None:
    run = valid_run()
    change(run)
    problems = checked(tmp_path / "b.zip", run).problems
    assert [problem for problem in problems if problem.field == field and said in problem.text]


def test_the_least_and_the_most_that_are_possible(tmp_path: Path) -> None:
    run = valid_run()
    for seconds in (5.1e-7, YEAR_S / 2):
        run.update(loop_s=seconds, total_s=max(1.0, seconds), setup_s=0.0, evaluation_s=0.0, curve=[])
        found = checked(tmp_path / "b.zip", run, documents={format.PROBE: None}).problems
        assert [problem.severity for problem in found] == ["note"]  # because no speeds are known


def test_a_clock_before_there_were_any(tmp_path: Path) -> None:
    run = valid_run()
    run["campaign"]["created_at_utc"] = run["started_at_utc"] = "0001-01-01T00:00:00.000Z"
    found = checked(tmp_path / "b.zip", run).problems
    assert [problem.field for problem in found] == ["started_at_utc", "campaign.created_at_utc"]
    assert "is before 1970-01-01" in found[0].text


def test_a_machine_of_more_than_there_is(tmp_path: Path) -> None:
    run = valid_run()
    run["platform"]["threads_logical"] = 2**63 - 1
    machine = MACHINE | {"facts": run["platform"], "sha256": sha256_of(run["platform"])}
    (found,) = checked(tmp_path / "b.zip", run, documents={format.PLATFORM: machine}).problems
    assert found.field == "platform.threads_logical"
    assert "is more than is possible: 1e+07" in found.text
