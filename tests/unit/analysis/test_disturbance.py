"""The number of trials and complete rounds that ran on a busy machine, and whether it is busy now."""

from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

from tests.support.frames import grid
from tests.unit.reports.test_answers import OF_STUDY, runs_of
from tests.unit.runner.test_machine import taken
from tmflow.analysis.noise import Disturbance, RoundLoad, count_disturbed, sentence_on
from tmflow.reports import answers
from tmflow.runner import machine_load
from tmflow.runner.machine_load import Load, User
from tmflow.workflow import doctor

QUIET = Load(2, 0.25, 0.01, 0.0, busy=False, users=[])
BUSY = Load(2, 7.0, 0.9, 0.03, busy=True, users=[User(17, "cc1plus", 0.98)])


def disturbed(runs: pd.DataFrame, rounds: tuple[int, ...], unknown_threads: int = 0) -> pd.DataFrame:
    """The runs, with these rounds disturbed; unknown for runs with `unknown_threads` threads."""
    flags = runs["round"].isin(rounds).astype("boolean")
    return runs.assign(disturbed=flags.mask(runs["threads"] == unknown_threads))


def test_trials_and_rounds_are_counted() -> None:
    runs = disturbed(grid(threads=(1, 2, 4)), (1, 2), unknown_threads=4)
    one_of_four = (runs["round"] == 3) & (runs["threads"] == 1) & (runs["strategy"] == "tf_lock")
    runs.loc[one_of_four, "disturbed"] = True
    failed = runs.head(1).assign(status="failed", round=7)
    emulated = runs.head(1).assign(evidence="emulated", round=8)
    counted = count_disturbed(pd.concat([runs, failed, emulated]))
    assert counted == Disturbance(trials=36, disturbed=9, unknown=12, rounds=6, disturbed_rounds=2)


def test_the_load_of_a_round_is_that_of_its_trials_by_their_time() -> None:
    """Round 2 has a trial of 9 s without and one of 1 s with all of the machine used by others: 10 % of the round."""
    runs = grid(("lock",), (1, 2, 4), rounds=4).assign(total_s=9.0, others_fraction=0.0)
    runs.loc[runs["threads"] == 4, ["total_s", "others_fraction"]] = [0.4, None]  # too short to judge
    runs.loc[(runs["threads"] == 2) & (runs["round"] == 2), ["total_s", "others_fraction"]] = [1.0, 1.0]
    runs.loc[runs["round"] == 4, "others_fraction"] = None
    load = count_disturbed(runs).load
    assert load is not None
    assert load == (3, pytest.approx(1 / 46), pytest.approx(0.1), pytest.approx(46 / (46 + 4 * 0.4 + 18)))
    assert count_disturbed(runs.assign(status="failed")).load is None
    assert count_disturbed(runs.assign(others_fraction=None)).load is None
    without_total = runs.assign(total_s=None, loop_s=2.0)  # as in run files of the static program
    assert count_disturbed(without_total).load == (3, pytest.approx(1 / 6), pytest.approx(0.5), pytest.approx(0.5))


@pytest.mark.parametrize(
    ("counted", "says"),
    [
        (Disturbance(36, 0, 0, 6, 0), None),
        (Disturbance(36, 0, 0, 6, 0, RoundLoad(6, 0.01, 0.02, 1.0)), None),
        (
            Disturbance(2041, 0, 1461, 46, 0, RoundLoad(37, 0.00999, 0.032, 0.811)),
            "Whether other processes used the machine is not known of 1461 of 2041 trials. During 37 of 46 rounds "
            "other processes used 1 % of the machine, at most 3.2 % in one, judged over 81 % of the time of all "
            "trials.",
        ),
        (
            Disturbance(4, 1, 0, 1, 0, RoundLoad(1, 0.123, 0.123, 1.0)),
            "Other processes used the machine during 1 of 4 trials, so their times are less certain. During the round "
            "other processes used 12 % of the machine.",
        ),
        (
            Disturbance(4, 4, 0, 2, 0, RoundLoad(2, 0.77, 0.998, 1.0)),
            "Other processes used the machine during 4 of 4 trials, so their times are less certain. During the rounds "
            "other processes used 77 % of the machine, at most 100 % in one.",
        ),
        (
            Disturbance(138, 129, 0, 6, 5),
            "Other processes used the machine during 129 of 138 trials, and during most trials of 5 of 6 rounds, so "
            "their times are less certain.",
        ),
        (
            Disturbance(36, 9, 12, 6, 2),
            "Other processes used the machine during 9 of 36 trials, and during most trials of 2 of 6 rounds, so their "
            "times are less certain; whether other processes used the machine is not known of 12 of 36 trials.",
        ),
        (Disturbance(4, 0, 3, 1, 0), "Whether other processes used the machine is not known of 3 of 4 trials."),
    ],
)
def test_the_sentence(counted: Disturbance, says: str | None) -> None:
    assert sentence_on(counted) == says


def test_the_card_of_the_overview_counts_them() -> None:
    runs = runs_of(OF_STUDY, {"htm": 1.4})
    assert "Other processes" not in answers.answer_transactions([runs], "1234abcd").rests_on
    basis = answers.answer_transactions([disturbed(runs, (1, 2, 3))], "1234abcd").rests_on
    assert "driver. Other processes used the machine during 6 of 12 trials" in basis


def test_the_load_now_and_who_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_load, "TICKS_PER_S", 100)
    samples = iter([taken(0), taken(1, user=180)])
    used = iter(
        [{(17, "cc1plus"): 5.0, (18, "idle"): 1.0}, {(17, "cc1plus"): 5.98, (18, "idle"): 1.01, (19, "new"): 3.0}]
    )
    monkeypatch.setattr(machine_load, "sample", lambda: next(samples))
    monkeypatch.setattr(machine_load, "_used", lambda: next(used))
    now = machine_load.look(0)
    assert (now.busy, now.others, now.users) == (True, pytest.approx(0.9), [User(17, "cc1plus", pytest.approx(0.98))])
    assert "load 0.2 on " in str(now)
    assert str(now).endswith(
        "processors, other processes use 90 % of the CPU time: cc1plus (process 17) 98 % of a processor"
    )


@pytest.mark.parametrize(("load1", "busy"), [(0.0, False), (1000.0, True), (None, False)])
def test_where_the_kernel_tells_no_shares_the_load_decides(
    load1: float | None, busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = iter(dataclasses.replace(taken(at_s), load1=load1, times=None) for at_s in (0, 1))
    monkeypatch.setattr(machine_load, "sample", lambda: next(samples))
    assert machine_load.look(0).busy is busy


def test_doctor_says_whether_the_machine_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "look", lambda: QUIET)
    assert (doctor._load().state, doctor._load().text) == (
        "ok", "yes: load 0.2 on 2 processors, other processes use 1 % of the CPU time",
    )  # fmt: skip
    monkeypatch.setattr(doctor, "look", lambda: BUSY)
    found = doctor._load()
    assert found.state == "limited"
    assert found.text == (
        "no: load 7.0 on 2 processors, other processes use 90 % of the CPU time, the hypervisor takes 3 %: "
        "cc1plus (process 17) 98 % of a processor"
    )
    assert "measure when" in (found.advice or "")
