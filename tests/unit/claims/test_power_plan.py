"""The plan of the claims: what decides each on this machine, how long that takes, or why it cannot be planned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import URL, Connection
from typer.testing import CliRunner

from tests.support.claim_worlds import CLAIMS, only, set_world
from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.claims.measured_runs import MeasuredRuns, load_measured_runs
from tmflow.claims.next_run import Machine
from tmflow.claims.power_plan import Guess, PlannedClaim, as_text, plan_claims
from tmflow.claims.selection import Missing
from tmflow.claims.tables import Tables, load
from tmflow.cli import app
from tmflow.store import engine
from tmflow.study.config import load_study
from tmflow.study.plan import Plan

GUESS = (0.02, 0.08)  # of a point alone in a round, and between trials
STUDY = load_study(project_root() / "config.yaml")


def planned(
    results: Path,
    *names: str,
    processors: int = 64,
    capability: str = "rtm",
    power: float = 0.8,
    guess: Guess | None = GUESS,
    runs: MeasuredRuns | None = None,
) -> dict[str, PlannedClaim]:
    plan, claims = Plan(STUDY, "full", results, processors), only(*names)
    runs = runs or MeasuredRuns({}, CLAIMS.configurations, processors)
    every = plan_claims(claims, plan, Machine(capability, processors), runs, power, guess)
    return {one.name: one for one in every}


def test_a_plan_names_rounds_and_time_of_each_experiment(tmp_path: Path) -> None:
    one = planned(tmp_path, "softmax-same-speed")["softmax-same-speed"]
    ((experiment, rounds, repeats, seconds),) = one.rounds
    assert (one.statements, experiment, one.noise_rounds) == (2, "fig-4.1", None)
    plan = Plan(STUDY, "full", tmp_path, 64)
    assert seconds == pytest.approx(rounds * plan.costs.round_s(plan.points("fig-4.1", "mnist"), repeats))
    both = planned(tmp_path, "htm-pays-with-no-other-batches")["htm-pays-with-no-other-batches"]
    assert [of.experiment for of in both.rounds] == ["fig-4.10", "fig-4.1"]
    assert both.seconds == sum(of.seconds for of in both.rounds)


def test_more_noise_and_more_power_need_more_rounds_and_no_less_than_six(tmp_path: Path) -> None:
    def rounds(**changes: Any) -> int:
        (of,) = planned(tmp_path, "softmax-same-speed", **changes)["softmax-same-speed"].rounds
        return of.rounds * of.repeats

    assert rounds() < rounds(power=0.95)
    assert rounds() < rounds(guess=(0.1, 0.08))
    assert rounds(guess=(0.0, 0.0)) == 6


def test_repeats_are_planned_only_where_trials_are_the_noise(tmp_path: Path) -> None:
    """A session of this model starts slowly and trains fast, so repeats are cheap."""

    def repeats(guess: Guess) -> int:
        return planned(tmp_path, "softmax-same-speed", guess=guess)["softmax-same-speed"].rounds[0].repeats

    assert repeats((0.0, 0.15)) > 1
    assert repeats((0.15, 0.0)) == 1


@pytest.mark.parametrize(
    ("name", "machine", "reason"),
    [
        ("tle-same-as-htm", {}, "no run can test it"),
        ("power-htm-gain", {}, "needs a machine with POWER's transactions"),
        ("softmax-same-speed", {"processors": 8}, "needs 16 hardware threads"),
        (
            "softmax-same-speed",
            {"processors": 8, "capability": "none"},
            "needs a machine with Intel's transactions (RTM) and 16 hardware threads",
        ),
        (
            "no-difference-of-accuracy",
            {},
            "no noise of its measure (accuracy) is known: too few measured runs of fig-4.1",
        ),
        (
            "softmax-same-speed",
            {"guess": None},
            "no noise of its measure (speed) is known: too few measured runs of fig-4.1",
        ),
        ("softmax-same-speed", {"guess": (9.0, 0.0)}, "1000 rounds of fig-4.1 are too few"),
    ],
)
def test_what_cannot_be_planned_says_why(tmp_path: Path, name: str, machine: dict[str, Any], reason: str) -> None:
    one = planned(tmp_path, name, **machine)[name]
    assert (one.reason, one.rounds) == (reason, [])
    assert one.as_json()["reason"] == reason
    assert f"{name:<41}{reason}" in as_text([one], 0.8, None)


def test_measured_noise_is_that_of_the_points_that_the_claim_compares(
    claims_db: Connection, true_world: dict[str, Tables], tmp_path: Path
) -> None:
    def plan_with(table: Tables) -> PlannedClaim:
        runs = MeasuredRuns({"fig-4.1": table}, CLAIMS.configurations, 64)
        return planned(tmp_path, "softmax-same-speed", guess=None, runs=runs)["softmax-same-speed"]

    table = true_world["fig-4.1"]
    noise = np.exp(np.random.default_rng(4).normal(0, 0.1, len(table.runs)))
    compared = (table.runs["matrix"] == 784).to_numpy(dtype=bool)

    def noisy(where: NDArray[np.bool_]) -> Tables:
        return replace(table, runs=table.runs.assign(loop_s=table.runs["loop_s"] * np.where(where, noise, 1)))

    one = plan_with(noisy(compared))
    (guessed,) = planned(tmp_path, "softmax-same-speed", guess=(0.1, 0.0))["softmax-same-speed"].rounds
    assert one.noise_rounds == one.as_json()["noise_rounds"] == 6
    assert " 6 rounds" in "\n".join(as_text([one], 0.8, None))
    assert one.rounds[0].rounds == pytest.approx(guessed.rounds, rel=0.25)
    assert one.rounds[0].repeats == 1  # the runs have no repeats, so nothing shows what they would gain
    other = plan_with(
        replace(table, runs=table.runs.assign(loop_s=table.runs["loop_s"] * np.where(compared, 1, noise)))
    )
    assert other.rounds[0].rounds == 6


def test_a_claim_with_failed_runs_is_not_planned(true_world: dict[str, Tables], tmp_path: Path) -> None:
    table = true_world["fig-4.1"]
    runs = table.runs.reset_index(drop=True)
    htm = runs.index[(runs["strategy"] == "htm") & (runs["evidence"] == "measured") & (runs["matrix"] == 784)]
    failed = runs.assign(status=runs["status"].where(runs.index != htm[-1], "failed"))
    measured = MeasuredRuns({"fig-4.1": replace(table, runs=failed)}, CLAIMS.configurations, 64)
    for guess in (None, GUESS):
        one = planned(tmp_path, "softmax-same-speed", guess=guess, runs=measured)["softmax-same-speed"]
        assert (one.reason, one.rounds) == ("runs of fig-4.1 failed", [])


def test_the_noise_of_accuracies_is_measured_although_that_of_times_is_a_guess(
    claims_db: Connection, tmp_path: Path
) -> None:
    def rounds(world: Any) -> int:
        set_world(claims_db, CLAIMS, CLAIMS.claims["no-difference-of-accuracy"], world)
        tables = load(claims_db, ["fig-4.1", "fig-4.10"])
        runs = MeasuredRuns(tables, CLAIMS.configurations, 64)
        one = planned(tmp_path, "no-difference-of-accuracy", runs=runs)["no-difference-of-accuracy"]
        assert one.noise_rounds == 6
        return max(of.rounds for of in one.rounds)

    assert rounds("holds") == 6 < rounds("borderline")


def test_the_estimates_do_not_change_the_plan(claims_db: Connection, tmp_path: Path) -> None:
    def rounds(world: Any) -> list[Any]:
        set_world(claims_db, CLAIMS, CLAIMS.claims["softmax-same-speed"], world)
        runs = MeasuredRuns(load(claims_db, ["fig-4.1"]), CLAIMS.configurations, 64)
        return planned(tmp_path, "softmax-same-speed", guess=None, runs=runs)["softmax-same-speed"].rounds

    assert rounds("holds") == rounds("fails")


def test_runs_with_other_usable_threads_are_another_machine(claims_db: Connection, tmp_path: Path) -> None:
    runs = MeasuredRuns(load(claims_db, ["fig-4.1"]), CLAIMS.configurations, 32)
    assert runs.candidates("fig-4.1", "rtm").runs.empty
    one = planned(tmp_path, "softmax-same-speed", processors=32, guess=None, runs=runs)["softmax-same-speed"]
    assert one.reason == "no noise of its measure (speed) is known: too few measured runs of fig-4.1"


def test_a_database_with_runs_of_other_machines_only_has_no_noise(claims_url: URL) -> None:
    runs = load_measured_runs(engine.open_reader(claims_url), CLAIMS, 64)
    with pytest.raises(Missing):
        runs.select(CLAIMS.claims["softmax-same-speed"].checks[0], "rtm")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMFLOW_RESULTS_DIR", str(tmp_path))
    monkeypatch.delenv("TMFLOW_DB_URL", raising=False)
    return tmp_path


def test_the_command_lists_every_claim_as_text_and_json(elsewhere: Path) -> None:
    line = ["study", "plan", "--power", "0.8", "--noise-point", "0.02", "--noise-trials", "0.08"]
    text = CliRunner().invoke(app, line, catch_exceptions=False).output
    assert "a guess: 2.0% by a round, of this point alone, not the noise between\nrounds of `study noise`" in text
    document = json.loads(CliRunner().invoke(app, [*line, "--json"], catch_exceptions=False).output)
    assert (document["power"], document["noise_guess"]) == (0.8, [0.02, 0.08])
    assert [one["claim"] for one in document["claims"]] == list(CLAIMS.claims)
    for one in document["claims"]:
        assert (one["reason"] is None) == bool(one["experiments"])
        assert one["claim"] in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--power 0", "--power is 0, but must be above 0 and below 1"),
        ("--power 1", "--power is 1, but must be above 0 and below 1"),
        ("--power nan", "--power is nan, but must be above 0 and below 1"),
        ("--power -0.5", "--power is -0.5, but must be above 0 and below 1"),
        ("--power 0.8 --scale quick", "quick runs decide none"),
        ("--power 0.8 --noise-point 0.1", "belong together"),
        ("--noise-point 0.1 --noise-trials 0.1", "give --power"),
        ("--power 0.8 --noise-point 2 --noise-trials 0.1", "--noise-point is 2, but must be a share of the time"),
        ("--power 0.8 --noise-point 0 --noise-trials nan", "--noise-trials is nan, but must be a share of the time"),
    ],
)
def test_wrong_options_are_refused_with_what_is_allowed(elsewhere: Path, options: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        CliRunner().invoke(app, ["study", "plan", *options.split()], catch_exceptions=False)
