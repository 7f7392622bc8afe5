"""Every strategy without lost updates, with many threads on two processors: no loss, no deadlock, no livelock.

A moment for each here; `make test-endurance` takes SECONDS_PER_STRATEGY, a minute.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from endurance import PROCESSORS, SIZES, THREADS
from own_process import call
from variants import KEEPING

from tmflow.native import registry
from tmflow.spec.process_env import OF_A_PROCESS

SECONDS = float(os.environ.get("SECONDS_PER_STRATEGY", "1.5"))
LIMIT_S = 4 * SECONDS + 300  # a process that has not ended by then hangs, even if other tests use the processors, too

EMULATED = {"provider": "emulated", "profile": "intel-tsx-study"}
# The default variants of KEEPING; hardware transactions, even if there are none; and variants suspected of livelock or
# starvation.
ENDURED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in KEEPING),
    ("htm", EMULATED),
    ("htm_if_fits", EMULATED),
    ("adaptive", {"promise": "block"}),
    *(("block_stm", {"manager": manager}) for manager in ("suicide", "aggressive", "timestamp")),
    *(("stm", {"manager": manager}) for manager in ("aggressive", "timestamp")),
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]


def has_whole_reads(strategy: str, parameters: dict[str, Any]) -> bool:
    """Whether its reads return the whole variable, so that none may be torn."""
    return (
        registry.require(strategy).snapshot_consistency in ("tensor", "step") and parameters.get("promise") != "block"
    )


@pytest.mark.parametrize(
    ("strategy", "parameters"),
    [pytest.param(*each, id=" ".join((each[0], *each[1].values()))) for each in ENDURED],
)
def test_nobody_is_left_behind(strategy: str, parameters: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    if parameters != EMULATED and (reason := registry.require(strategy).why_not):
        pytest.skip(reason)
    if strategy in OF_A_PROCESS and (reason := call("state", strategy, parameters)["why_not"]):
        pytest.skip(reason)
    try:
        report = call("endurance", strategy, parameters, limit_s=LIMIT_S, seconds=SECONDS)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{strategy} {parameters}: no end after {LIMIT_S:g} s, so a deadlock or a livelock")
    with capsys.disabled():
        found = f"{report['updates']:.2e} updates and {report['reads']:.2e} reads in {report['seconds']:.1f} s"
        where = f"{THREADS} threads on {PROCESSORS} processors"
        print(f"\n{strategy} {parameters}, {where}: {found}; lost {report['lost']}, torn {report['torn']}")
    assert report["seconds"] >= SECONDS
    assert report["expected"] >= THREADS * sum(SIZES)
    assert (report["lost"], report["doubled_or_misplaced"]) == (0, 0)
    if has_whole_reads(strategy, parameters):
        assert report["checked"] > 0
        assert report["torn"] == 0
