"""A database with runs for all claims, and worlds in which a claim holds, fails, or is open.

The runs are made from the selections of the claims and ingested once. A test then sets their measured values, in a
transaction that it rolls back, so that a predicate is true, false or undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any, Literal, NamedTuple

import pandas as pd
from sqlalchemy import Connection, select, text

from tests.support.sample_runs import ENVIRONMENT, PLATFORM, SOFTWARE, backend
from tmflow.base.canonical_json import sha256_of
from tmflow.claims import predicates, speedups
from tmflow.claims.origins import Judged, judge
from tmflow.claims.predicates import Predicate
from tmflow.claims.schema import Check, Claim, Claims, load_claims
from tmflow.claims.tables import Tables
from tmflow.runfile.record import Abort, CampaignRef, Counters, ExperimentRef, Process, Run
from tmflow.spec.models import MODELS
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec
from tmflow.store import factor_columns, models

World = Literal["holds", "fails", "borderline"]
Change = Callable[[pd.DataFrame], pd.DataFrame]
CLAIMS = load_claims()
SPEED, COMMITS = "softmax-same-speed", "softmax-few-commits"  # two claims of fig-4.1 that many tests use
THREADS = (1, 2, 15, 16, 26, 34, 48, 55, 64)
ROUNDS = 6
REPEATS = {False: 1, True: 2}  # of an experiment, by whether a claim is about the spread of its repeats
MACHINES: dict[str, dict[str, Any]] = {
    "rtm": {"cpu_model": "a machine like the study's", "threads_logical": 64, "tm_capability": "rtm"},
    "power": {"cpu_model": "a POWER8", "isa": "ppc64le", "threads_logical": 80, "tm_capability": "htm"},
}
PROFILES = {"rtm": "intel-tsx-study", "power": "ibm-power8-s822"}
CODES = {"conflict": "0x00000006", "capacity": "0x00000008", "explicit": "0x01000001"}
WHOLE = 1_000_000  # transactions, attempts or aborts, the base of a share


def only(*names: str) -> Claims:
    """The project's claims reduced to these."""
    return CLAIMS.model_copy(update={"claims": {name: CLAIMS.claims[name] for name in names}})


def by_name(claims: Claims, tables: Mapping[str, Tables]) -> dict[tuple[str, str], Judged]:
    return {(verdict.id, verdict.evidence): verdict for verdict in judge(claims, tables)}


def verdict_of(name: str, tables: Mapping[str, Tables], change: Change, evidence: str = "measured") -> Judged:
    """The verdict on this claim for the runs after `change`."""
    changed = {experiment: replace(table, runs=change(table.runs.copy())) for experiment, table in tables.items()}
    return by_name(only(name), changed)[name, evidence]


def world_runs(claims: Claims, rounds: int = ROUNDS) -> list[Run]:
    """One campaign with every curve of every claim, on the machine that can decide it; also emulated if that is
    allowed.
    """
    specs = {
        (check.experiment, hardware, spec.sha256): spec
        for claim in claims.claims.values()
        for check in claim.checks
        for hardware in [_hardware(check)]
        for name in check.predicate.of
        for kind in {"measured", "emulated"} & set(claim.evidence)
        for threads in THREADS
        if threads > claims.configurations[name].get("backup_workers", 0)
        for spec in [_spec(check, claims.configurations[name], kind, hardware, threads)]
    }
    return [
        _run(experiment, hardware, spec, number, repeat)
        for (experiment, hardware, _), spec in specs.items()
        for number in range(1, rounds + 1)
        for repeat in range(1, 1 + REPEATS[experiment == "dist-variance"])
    ]


def _hardware(check: Check) -> str:
    return "power" if check.experiment == "fig-4.7" else "rtm"


def _factors(check: Check, configuration: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """The factors by which a check chooses the runs of a configuration with so many workers."""
    own = {} if check.steps_per_worker is None else {"iterations": check.steps_per_worker * threads}
    return {**check.where, **configuration, **own}


def _spec(check: Check, configuration: Mapping[str, Any], kind: str, hardware: str, threads: int) -> TrialSpec:
    factors = _factors(check, configuration, threads)
    study: dict[str, Any] = {"model": "mnist_softmax", "dataset": "mnist", "batch": 1, "iterations": 10_000}
    if factors.get("driver") == "cluster":
        study["iterations"] = math.lcm(*THREADS)  # so that mode sync can split them
    if factors["strategy"] == "lock":
        study["measures"] = "full"
    if factors.get("model") == "mnist_deep":
        study["dropout_keep"] = 0.5
    if "passes" in factors:  # a convolutional network
        study |= {"dataset": "synthetic", "image_size": 72}
    if check.experiment.startswith("sparse-"):
        study |= {"dataset": "synthetic", "driver": "native", "model": "sparse_logistic"}
        study |= MODELS[str(factors.get("model", "sparse_logistic"))].factors
    if check.experiment in ("break-even", "optimiser-state"):
        study["driver"] = "native"
    own = parameters_of(factors["strategy"])
    if factors["strategy"] == "htm":
        emulated = {"provider": "emulated", "profile": PROFILES[hardware]}
        own |= emulated if kind == "emulated" else {"provider": hardware}
    return TrialSpec.model_validate(study | {"learning_rate": 0.5, "threads": threads} | own | factors)


def _run(experiment: str, hardware: str, spec: TrialSpec, number: int, repeat: int) -> Run:
    counted, timed = spec.strategy == "htm", spec.measures == "full"
    return Run(
        uid=f"{experiment}-{spec.sha256}-{number}-{repeat}",
        campaign=CampaignRef(uid=f"campaign-{hardware}", created_at_utc="2026-01-01T00:00:00.000Z"),
        experiment=ExperimentRef(name=experiment, scale="full", definition_sha256=sha256_of({}), definition={}),
        round=number,
        repeat=repeat,
        ordinal=0,
        order_seed=number,
        trial_seed=number - 1,
        resumed=False,
        started_at_utc=f"2026-01-01T00:00:{number:02}.000Z",
        spec=spec,
        dataset_sha256="d" * 64,
        evidence=spec.evidence,
        time_domain="wall",
        backend=backend(spec.profile) if spec.profile else None,
        platform=PLATFORM | MACHINES[hardware],
        environment=ENVIRONMENT | {"cpus_allowed": MACHINES[hardware]["threads_logical"]},
        software=SOFTWARE,
        status="ok",
        loop_s=1.0,
        final_accuracy=0.5,
        counters=[
            Counters(
                worker=0,
                variable="W",
                updates=1,
                **(dict.fromkeys(("commits", "attempts"), 1) | {"fallbacks": 0} if counted else {}),
                **(dict.fromkeys(("lock_waited_s", "lock_held_s"), 0.0) if timed else {}),
            )
        ]
        if counted or timed
        else [],
        # The first worker stands for all but the last.
        processes=[Process(role="worker", index=0, host="host 1", steps=spec.iterations // spec.threads, loop_s=1.0)]
        if experiment == "dist-sync"
        else [],
        aborts=[
            Abort.model_validate(
                {"worker": 0, "variable": "W", "mechanism": "rtm", "raw_code": code, "family": family, "n": 0}
            )
            for family, code in CODES.items()
            if counted
        ],
    )


class Setting(NamedTuple):
    """The measured value of a curve's runs with so many workers, and the noise of its rounds."""

    name: str
    threads: int
    value: float
    noise: float


def set_world(connection: Connection, claims: Claims, claim: Claim, world: World) -> None:
    """Make the claim hold, fail, or stay open: the last check decides, and those before it hold."""
    for number, check in enumerate(claim.checks, start=1):
        its_world = world if number == len(claim.checks) else "holds"
        for setting in settings(check.predicate, its_world):
            if setting.threads > claims.configurations[setting.name].get("backup_workers", 0):
                factors = _factors(check, claims.configurations[setting.name], setting.threads)
                _set(connection, check, factors, setting)


def _set(connection: Connection, check: Check, factors: dict[str, Any], setting: Setting) -> None:
    """Set all runs of a setting, of any evidence, to its values; the noise of the rounds cancels."""
    wanted = {**factors, "threads": setting.threads}
    rows = connection.execute(
        select(models.Run.id, models.Round.number, models.Spec.iterations, models.Run.repeat)
        .select_from(models.Run)
        .join(models.Spec, models.Spec.id == models.Run.spec_id)
        .join(models.Round, models.Round.id == models.Run.round_id)
        .join(models.Experiment, models.Experiment.id == models.Round.experiment_id)
        .where(models.Experiment.name == check.experiment)
        .where(*(factor_columns.factor(name) == value for name, value in wanted.items()))
    ).all()
    assert rows, f"no run of {setting.name} with {setting.threads} threads in {check.experiment}"
    values = [
        {
            "run": run,
            "iterations": n,
            "value": setting.value + setting.noise * (1 if number % 2 else -1),
            "side": 1 if repeat % 2 else -1,
        }
        for run, number, n, repeat in rows
    ]
    for statement, parameters in _updates(check.predicate, values):
        connection.execute(text(statement), parameters)


def _updates(predicate: Predicate, values: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The statement that sets the measure of a predicate."""
    measure = predicate.measure
    shares = [{**row, "part": round(WHOLE * row["value"])} for row in values]
    match measure.name:
        case "speed":
            yield "UPDATE run SET loop_s = :iterations / :value WHERE id = :run", values
        case "speed_of_others":
            yield "UPDATE process SET loop_s = steps / :value WHERE run_id = :run", values
        case "accuracy":
            yield "UPDATE run SET final_accuracy = :value WHERE id = :run", values
        case "accuracy_spread":  # two trials, each at a side of a half
            yield "UPDATE run SET final_accuracy = 0.5 + :side * :value / sqrt(2) WHERE id = :run", values
        case "commits":
            counted = f"commits = :part, fallbacks = {WHOLE} - :part"
            yield f"UPDATE counters SET {counted} WHERE run_id = :run", shares
        case "lock_waiting" | "lock_holding":
            column = {"lock_waiting": "lock_waited_s", "lock_holding": "lock_held_s"}[measure.name]
            threads = "(SELECT spec.threads FROM run JOIN spec ON spec.id = spec_id WHERE run.id = :run)"
            yield f"UPDATE counters SET {column} = :value * {threads} WHERE run_id = :run", values
        case "commits_of_attempts":
            yield f"UPDATE counters SET commits = :part, attempts = {WHOLE} WHERE run_id = :run", shares
        case _:
            yield f"UPDATE counters SET attempts = {WHOLE} WHERE run_id = :run", shares
            for family, n in ((measure.causes[0], ":part"), ("explicit", f"{WHOLE} - :part")):
                reason = f"(SELECT id FROM abort_reason WHERE family = '{family}')"
                yield f"UPDATE run_abort SET n = {n} WHERE run_id = :run AND reason_id = {reason}", shares


@singledispatch
def settings(predicate: Predicate, world: World) -> list[Setting]:
    """The values that the curves of a predicate need in that world."""
    raise AssertionError(f"no world is made for {type(predicate).__name__} yet: add one here")


def _of_workers(predicate: Predicate) -> list[int]:
    return [w for w in THREADS if predicate.least <= w <= predicate.most]


NOISE: dict[World, float] = {"holds": 0.002, "fails": 0.002, "borderline": 0.03}


def _speeds(predicate: predicates.Predicate, factors: list[float], world: World) -> list[Setting]:
    """Curve i is factors[i] times as fast as perfect scaling, except with one worker; the last one is noisy."""
    return [
        Setting(name, w, 1e5 * w * factor, 1e5 * w * factor * NOISE[world] * (name == predicate.of[-1]) * (w > 1))
        for name, last in zip(predicate.of, factors, strict=True)
        for w in THREADS
        for factor in [last if w > 1 else 1.0]
    ]


@settings.register
def _(predicate: predicates.Equivalent, world: World) -> list[Setting]:
    last = {"holds": 1.0, "fails": 1.3, "borderline": 1 + predicate.bound}[world]
    return _speeds(predicate, [*[1.0] * (len(predicate.of) - 1), last], world)


@settings.register
def _(predicate: predicates.Order, world: World) -> list[Setting]:
    step = {"holds": 1.4, "fails": 1.0, "borderline": 1 + predicate.bound}[world]
    factors = [1.4**place for place in range(len(predicate.of) - 1)]
    return _speeds(predicate, [*factors, factors[-1] * step], world)


@settings.register
def _(predicate: predicates.RatioWithin, world: World) -> list[Setting]:
    if predicate.high is None:
        assert predicate.low is not None, "one of the bounds is given"
        ratio = {"holds": 1.3 * predicate.low, "fails": predicate.low / 1.3, "borderline": predicate.low}
    else:
        low = predicate.low or predicate.high / 1.5
        ratio = {"holds": math.sqrt(low * predicate.high), "fails": 1.3 * predicate.high, "borderline": predicate.high}
    return _speeds(predicate, [ratio[world], *[1.0] * (len(predicate.of) - 1)], world)


@settings.register
def _(predicate: predicates.LargerGain, world: World) -> list[Setting]:
    gain = {"holds": 1.5, "fails": 1.0, "borderline": 1 + predicate.bound}[world]
    return _speeds(predicate, [1.2 * gain, 1.0, 1.2, 1.0], world)


def _shares(predicate: Predicate, world: World, threshold: float, inside: float) -> list[Setting]:
    """All shares at the threshold, between it and `inside`, or on the other side."""
    if predicate.measure.is_spread:  # of the size of its threshold
        away = {"holds": threshold, "fails": -threshold / 2, "borderline": 0.0}[world]
        noise = {"holds": 0.02, "fails": 0.02, "borderline": 0.5}[world] * threshold
        return [Setting(name, w, threshold + away, noise) for name in predicate.of for w in _of_workers(predicate)]
    away = {"holds": (inside - threshold) / 2, "fails": -(inside - threshold) / 4, "borderline": 0.0}[world]
    noise = {"holds": 0.002, "fails": 0.002, "borderline": 0.05}[world]
    return [Setting(name, w, threshold + away, noise) for name in predicate.of for w in _of_workers(predicate)]


@settings.register
def _(predicate: predicates.ShareAbove, world: World) -> list[Setting]:
    return _shares(predicate, world, predicate.threshold, 1.0)


@settings.register
def _(predicate: predicates.ShareBelow, world: World) -> list[Setting]:
    return _shares(predicate, world, predicate.threshold, 0.0)


@settings.register
def _(predicate: predicates.ShareWithin, world: World) -> list[Setting]:
    return _shares(predicate, world, predicate.high, predicate.low)


@settings.register
def _(predicate: predicates.ShareDifference, world: World) -> list[Setting]:
    """The first curve differs from the others, which are at a half; it alone is noisy."""
    low = -0.2 if predicate.low is None else predicate.low
    high = 0.2 if predicate.high is None else predicate.high
    bound, outside = (high, 0.2) if predicate.high is not None else (low, -0.2)
    first = {"holds": (low + high) / 2, "fails": bound + outside, "borderline": bound}[world]
    noise = {"holds": 0.002, "fails": 0.002, "borderline": 0.05}[world]
    return [
        Setting(name, w, 0.5 + first * (name == predicate.of[0]), noise * (name == predicate.of[0]))
        for name in predicate.of
        for w in _of_workers(predicate)
    ]


@settings.register
def _(predicate: predicates.ShareRise, world: World) -> list[Setting]:
    """Each further number of workers adds as much, so little that no share leaves the range from 0 to 1."""
    low, high = predicate.low, predicate.high
    assert low is not None  # of every claim so far
    rise = {
        "holds": (low + high) / 2 if high is not None else low + 0.01,
        "fails": low - 0.02,
        "borderline": low,
    }[world]
    noise = {"holds": 0.0005, "fails": 0.0005, "borderline": 0.05}[world]
    return [
        Setting(name, w, 0.5 + rise * place, noise * (place % 2))
        for name in predicate.of
        for place, w in enumerate(_of_workers(predicate))
    ]


def _curves(predicate: Predicate, world: World, speedup: Callable[[str, int], float]) -> list[Setting]:
    """Each configuration has this speedup at each number of workers, noisy from two workers on."""
    return [
        Setting(name, w, 1e5 * speedup(name, w), 1e5 * speedup(name, w) * NOISE[world] * (w > 1))
        for name in predicate.of
        for w in THREADS
    ]


@settings.register
def _(predicate: speedups.NearLinear, world: World) -> list[Setting]:
    near = {"holds": 0.95, "fails": 0.6, "borderline": predicate.efficiency}[world]
    return _curves(predicate, world, lambda _, w: 1 if w == 1 else w * near)


@settings.register
def _(predicate: speedups.Sublinear, world: World) -> list[Setting]:
    beyond = {"holds": 0.5, "fails": 0.95, "borderline": predicate.efficiency}[world]
    return _curves(predicate, world, lambda _, w: 1 if w == 1 else w * beyond)


@settings.register
def _(predicate: speedups.Plateau, world: World) -> list[Setting]:
    change = {"holds": 1.0, "fails": 2.0, "borderline": 1 + predicate.bound}[world]
    return _curves(predicate, world, lambda _, w: 10 * change if w == THREADS[-1] else min(w, 10))


@settings.register
def _(predicate: speedups.Spikes, world: World) -> list[Setting]:
    spike = {"holds": 1.5, "fails": 0.7, "borderline": 1 + predicate.bound}[world]
    return _curves(predicate, world, lambda _, w: min(w, 10) * (spike if w in predicate.at else 1))


@settings.register
def _(predicate: speedups.Peak, world: World) -> list[Setting]:
    middle = math.sqrt(predicate.low * predicate.high)
    best = {"holds": middle, "fails": 0.5 * predicate.low, "borderline": predicate.low}[world]
    return _curves(predicate, world, lambda _, w: 1 + (best - 1) * (w - 1) / (THREADS[-1] - 1))


@settings.register
def _(predicate: speedups.RisingPeaks, world: World) -> list[Setting]:
    step = {"holds": 1.5, "fails": 0.7, "borderline": 1 + predicate.bound}[world]
    best = {name: 10 * step**place for place, name in enumerate(predicate.of)}
    return _curves(predicate, world, lambda name, w: 1 + (best[name] - 1) * (w - 1) / (THREADS[-1] - 1))
