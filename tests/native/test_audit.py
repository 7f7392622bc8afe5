"""The audit of every variant over millions of updates: those that guarantee it lose, double or misplace none."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from deep_audit import ENOUGH, audited
from own_process import call
from variants import STRATEGIES, variants_of

from tmflow.native import registry
from tmflow.spec.factors import Method, Tunables
from tmflow.spec.process_env import OF_A_PROCESS

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]

# The variants of the strategies that need a process started for them.
OWN_PROCESS = [
    *(("itm", {"method": method}) for method in get_args(Method)),
    ("itm", {"method": "ml_wt", "optimisation": "O0"}),
    *(("tle", {"tunables": tunables}) for tunables in get_args(Tunables)),
    ("tle", {"tunables": "default", "optimisation": "O0"}),
]


def check(variant: str, report: dict[str, Any], keeps_updates: bool, capsys: pytest.CaptureFixture[str]) -> None:
    lost = report["lost"]
    with capsys.disabled():
        where = ", ".join(f"{n} in {place}" for place, n in lost.items()) or "none"
        print(f"\n{variant}: {report['updates']:.2e} updates of an element in {report['seconds']:.1f} s; lost: {where}")
    assert report["updates"] >= ENOUGH
    assert report["doubled_or_misplaced"] == 0
    assert not any(place.endswith(" x 1 threads") for place in lost), "one thread has nobody to lose to"
    assert not lost if keeps_updates else lost, f"{variant}: its losses do not fit its consistency"


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in OF_A_PROCESS])
def test_every_update_is_kept_or_known_to_be_lost(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    for variant in variants_of(strategy):
        check(str(variant), audited(strategy, variant.parameters), variant.keeps_updates, capsys)


@pytest.mark.parametrize(("strategy", "parameters"), OWN_PROCESS)
def test_nor_is_one_lost_in_a_process_of_its_own(
    strategy: str, parameters: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    if reason := registry.require(strategy).why_not or call("state", strategy, parameters)["why_not"]:
        pytest.skip(reason)
    check(f"{strategy} {parameters}", call("deep_audit", strategy, parameters), True, capsys)
