"""What `tmflow doctor` recommends to run on a machine, and which claims need it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import PLATFORM, sample_runs
from tmflow.claims.next_run import (
    FEW,
    HAND_OVER,
    WITH_TENSORFLOW,
    WITHOUT,
    KnownMachines,
    Machine,
    find_known_machines,
    machine_of,
    next_step,
)
from tmflow.claims.schema import load_claims
from tmflow.store.ingest import ingest

NOBODY = KnownMachines([])
OURS = KnownMachines([Machine("rtm", 4)])
CLAIMS = load_claims()


@pytest.mark.parametrize(
    ("here", "others", "waits", "not_for_it"),
    [
        (Machine("rtm", 4), NOBODY, "softmax-few-commits", "power-capacity"),
        (Machine("rtm", 4), NOBODY, "deep-not-acceptable", "deep-linear"),  # which takes 15 hardware threads
        (Machine("rtm", 56), OURS, "softmax-best-speedup", "softmax-few-commits"),
        (Machine("htm", 80), OURS, "power-htm-gain", "deep-linear"),
        (Machine("none", 128), OURS, "softmax-near-linear", "deep-linear"),
    ],
)
def test_what_waits_for_a_machine(here: Machine, others: KnownMachines, waits: str, not_for_it: str) -> None:
    step = next_step(CLAIMS, here, others, tensorflow=True)
    assert step.command == WITH_TENSORFLOW
    assert waits in step.adds
    assert not_for_it not in step.adds
    assert f"{len(step.adds)} claims wait for such a machine: {step.adds[0]}, " in step.why
    assert (f"{len(step.adds) - FEW} more." in step.why) == (len(step.adds) > FEW)


def test_where_others_have_decided_all_it_says_so() -> None:
    step = next_step(CLAIMS, Machine("none", 2), OURS, tensorflow=True)
    assert (step.command, step.adds) == (WITH_TENSORFLOW, [])
    assert "No claim waits for such a machine" in step.why


def test_without_tensorflow_the_native_driver_is_what_it_can_add() -> None:
    """Every claim concerns experiments of the session driver."""
    step = next_step(CLAIMS, Machine("htm", 80), NOBODY, tensorflow=False)
    assert (step.command, step.adds) == (WITHOUT, [])
    assert step.why.startswith("This machine has POWER's transactions and 80 hardware threads. Without TensorFlow")


def test_what_is_measured_is_to_be_handed_over_once() -> None:
    here = Machine("rtm", 4)
    assert next_step(CLAIMS, here, KnownMachines([here], measured=True), tensorflow=True).command == HAND_OVER
    handed_over = KnownMachines([here], measured=True, handed_over=True)
    assert next_step(CLAIMS, here, handed_over, tensorflow=True).command == WITH_TENSORFLOW


@pytest.mark.parametrize(("committed", "capability"), [(0, "none"), (3, "rtm"), (None, "rtm")])
def test_transactions_that_never_commit_are_none(committed: int | None, capability: str) -> None:
    """As on machines whose microcode aborts all of them."""
    assert machine_of({"tm_capability": "rtm", "threads_logical": 8}, committed) == Machine(capability, 8)


def test_the_database_and_the_contributions_say_which_machines_have_measured(tmp_path: Path) -> None:
    url = make_url(f"sqlite:///{tmp_path}/study.db")
    contrib, results = tmp_path / "contrib", tmp_path / "a-machine"
    assert find_known_machines(url, contrib, PLATFORM) == NOBODY
    bundle = sample_bundle(results)
    machine = Machine(PLATFORM["tm_capability"], PLATFORM["threads_logical"])
    ingest(url, sorted(results.glob("results/runs/full/*/*/*.jsonl")))
    assert find_known_machines(url, contrib, PLATFORM) == KnownMachines([machine], measured=True)
    (contrib / "a-machine").mkdir(parents=True)
    bundle.rename(contrib / "a-machine" / bundle.name)
    assert find_known_machines(url, contrib, PLATFORM) == KnownMachines(
        [machine, machine], measured=True, handed_over=True
    )
    assert find_known_machines(url, contrib, PLATFORM | {"cpu_model": "another"}) == KnownMachines([machine, machine])


def test_quick_runs_decide_nothing(tmp_path: Path) -> None:
    url = make_url(f"sqlite:///{tmp_path}/study.db")
    sample_bundle(tmp_path, sample_runs(scale="quick"))
    ingest(url, sorted(tmp_path.glob("results/runs/quick/*/*/*.jsonl")))
    assert find_known_machines(url, tmp_path / "contrib", PLATFORM) == NOBODY
