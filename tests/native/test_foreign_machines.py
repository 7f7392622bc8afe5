"""Elision without any commit: Intel's and POWER's instructions in emulators that abort every transaction.

The emulated processors do not report transactions, so `htm` refuses to run there. The program of these tests runs the
elision without this check, which is safe only because the emulators know the instructions. On a processor with
transactions the same program uses them, and the test reports which case it was.
"""

from __future__ import annotations

import json
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cpp
import pytest

from tmflow.spec import abort_codes

pytestmark = pytest.mark.slow
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates x86-64 on x86-64")

BUDGET = 5


@dataclass(frozen=True)
class Machine:
    """An emulator, the abort status that it always gives, the meaning of that status, and whether it is persistent."""

    emulator: tuple[str, ...]
    mechanism: str
    status: str
    family: str
    hopeless: bool

    @property
    def attempts(self) -> dict[str, int]:
        """The attempts of a critical section with a budget of five, by retry policy."""
        if not self.hopeless:
            return dict.fromkeys(("study_tsx", "study_power", "tuned"), BUDGET)
        return {"study_tsx": 5, "study_power": 3, "tuned": 1}


VALGRIND = Machine(("valgrind", "--quiet", "--tool=none"), "rtm", "0x00000008", "capacity", hopeless=True)
QEMU_X86 = Machine(("qemu-x86_64",), "rtm", "0x00000000", "interrupt_or_fault", hopeless=False)
QEMU_POWER8 = Machine(("qemu-ppc64le", "-cpu", "power8"), "power", "0x14000003c000000", "nested", hopeless=True)


@pytest.fixture(scope="module")
def program(builds: cpp.Builds) -> Path:
    """bare_elision for this machine."""
    return builds.built("here", "bare_elision") / "tests" / "bare_elision"


@pytest.fixture(scope="module")
def power(builds: cpp.Builds) -> Path:
    """The folder with everything built for ppc64le."""
    return builds.built("ppc64le")


def rows_of(*command: str | Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in cpp.called(*command, "run").splitlines()]
    assert {(row["spending"], row["dtype"]) for row in rows} == {
        (spending, dtype) for spending in ("study_tsx", "study_power", "tuned") for dtype in ("float32", "float64")
    }
    assert all(row["exact"] for row in rows), rows
    assert all(row["commits"] + row["fallbacks"] == row["sections"] for row in rows), rows
    return rows


def falls_back(machine: Machine, program: Path, why_not: str) -> None:
    """Every section is attempted as often as its budget allows, gets this machine's aborts, and takes the mutex."""
    assert abort_codes.classify(machine.mechanism, int(machine.status, 16)) == {
        "raw_code": machine.status,
        "family": machine.family,
    }
    assert re.search(why_not, json.loads(cpp.called(*machine.emulator, program, "why_not")))
    for row in rows_of(*machine.emulator, program):
        assert row["commits"] == 0, row
        assert row["aborts"] == {machine.status: row["sections"] * machine.attempts[row["spending"]]}, row


@on_x86
def test_under_valgrind_every_transaction_lacks_capacity(program: Path) -> None:
    falls_back(VALGRIND, program, "does not report RTM")


@on_x86
def test_under_qemu_every_transaction_aborts_without_a_cause(program: Path) -> None:
    falls_back(QEMU_X86, program, "does not report RTM")


@pytest.mark.deep
def test_on_an_emulated_power8_every_transaction_is_nested_too_deep(power: Path) -> None:
    falls_back(QEMU_POWER8, power / "tests" / "bare_elision", "does not report POWER's transactional memory")


@pytest.mark.deep
def test_every_strategy_keeps_its_consistency_on_an_emulated_power8(power: Path) -> None:
    said = cpp.run_tests(power)
    assert {"stress_lock", "stress_nolock", "stress_htm"} <= set(re.findall(r"stress_\w+", said))


def test_here_they_commit_where_the_processor_has_them(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why_not = json.loads(cpp.called(program, "why_not"))
    if why_not is not None:
        pytest.skip(why_not)
    rows = rows_of(program)
    share = sum(row["commits"] for row in rows) / sum(row["sections"] for row in rows)
    with capsys.disabled():
        print(f"\nreal transactions of this processor: {share:.0%} of the critical sections committed ", end="")
    assert share > 0
