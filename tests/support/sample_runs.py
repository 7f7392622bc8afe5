"""Runs of a fictitious machine: plausible, deterministic, with all kinds of details.

The time of a step follows a simple law (parallel computation, serial updates under a lock), so speedups look realistic;
the noise is a hash, so equal arguments give equal runs.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tmflow.base.canonical_json import sha256_of
from tmflow.runfile.record import (
    Abort,
    Backend,
    CampaignRef,
    Counters,
    CurvePoint,
    ExperimentRef,
    FailedPublications,
    Lost,
    MachineState,
    Phase,
    Process,
    Reads,
    Retries,
    Run,
    Software,
    Staleness,
    TakenBlocks,
)
from tmflow.spec.strategies import parameters_of
from tmflow.spec.trial import TrialSpec

PLATFORM: dict[str, Any] = {
    "isa": "x86_64",
    "cpu_vendor": "Synthetic",
    "cpu_model": "synthetic test machine",
    "cpu_family": 6,
    "cpu_model_no": 0,
    "cpu_stepping": 1,
    "sockets": 1,
    "numa_nodes": 1,
    "cores_physical": 4,
    "threads_logical": 8,
    "l1d_bytes": 32 * 1024,
    "l1d_ways": 8,
    "l2_bytes": 1024**2,
    "l3_bytes": None,
    "cacheline_bytes": 64,
    "memory_bytes": 16 * 1024**3,
    "freq_max_hz": 3_000_000_000,
    "tm_capability": "none",
    "some_new_fact": "kept",
}
ENVIRONMENT: dict[str, Any] = {
    "os": "Synthetic Linux 1",
    "kernel": "Linux 6.0.0",
    "libc": "glibc 2.36",
    "microcode": None,
    "governor": "performance",
    "turbo": False,
    "cpus_allowed": 8,
    "smt": True,
    "thp": "madvise",
    "mitigations": {"tsx_async_abort": "Not affected"},
    "virtualisation": "none",
    "aslr": 2,
    "tm_enabled": None,
}
SOFTWARE = Software(
    tmflow="0.1.0",
    python="3.11.0",
    tensorflow="2.21.0",
    numpy="2.4.0",
    compiler="gcc 12.2.0",
    cflags="-O3",
    git_commit="0" * 40,
    git_dirty=False,
    lock_sha256=None,
)
SPEC: dict[str, Any] = {
    "model": "mnist_softmax",
    "dataset": "digits",
    "batch": 100,
    "iterations": 1000,
    "learning_rate": 0.5,
    "curve_points": 3,
}
# Mean seconds of the phases of a worker's step.
PHASES = {"apply": 4e-5, "compute": 1e-3, "other": 1e-4, "queue": 2e-5, "receive": 3e-4, "send": 5e-4}
TRAFFIC = {"receive": {"transfers": 4, "bytes": 31408}, "send": {"transfers": 2, "bytes": 31400}}  # of a step
TRACED = 20  # steps of each worker
# For each strategy and family of aborts: a raw code, and the number of aborts for each other worker.
ABORTS = {
    "htm": {"conflict": ("0x00000006", 2), "capacity": ("0x00000008", 1)},
    "stm": {"conflict": ("0x00000003", 2), "validation": ("0x00000006", 1)},
    "itm": {"unknown": ("0x00000000", 3)},
}
ABORTS["block_stm"], ABORTS["htm_if_fits"] = ABORTS["stm"], ABORTS["htm"]
MECHANISM = {"htm": "rtm", "htm_if_fits": "rtm", "block_stm": "stm"}  # of others, by their name
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
VARIABLES = ("W", "b")
TRANSACTIONAL = frozenset({"htm", "htm_if_fits", "stm", "itm", "tle", "block_stm"})
EMULATED = {"strategy": "htm", **parameters_of("htm"), "provider": "emulated", "profile": "intel-tsx-study"}
SOFTWARE_TM = {"strategy": "stm", **parameters_of("stm")}
FUSED = {"strategy": "striped", **parameters_of("striped"), "block": 2048, "kernel": "fused"}
FULL: dict[str, Any] = {"driver": "native", "measures": "full"}  # factors of runs with every measure
# Factors of runs with an optimiser that keeps arrays beside the variables, and every measure.
OPTIMISER: dict[str, Any] = {"strategy": "lock", **FULL, "optimiser": "momentum"}
CLUSTER: dict[str, Any] = {"driver": "cluster", "servers": 2}  # factors of runs with processes and phases
EMULATOR = {"name": "intel-tsx-study", "l1d_bytes": 32 * 1024, "l1d_ways": 8, "line_bytes": 64}


def sample_runs(
    experiments: Sequence[str] = ("fig_4_1",),
    strategies: Sequence[str | Mapping[str, Any]] = ("tf_lock", "tf_nolock", "stm"),
    threads: Sequence[int] = (1, 2, 4),
    rounds: int = 3,
    *,
    scale: str = "full",
    campaign: str = "campaign-1",
    day: int = 0,
    unsupported: Sequence[str] = (),
    disturbed_rounds: Sequence[int] = (),
    platform: dict[str, Any] | None = None,
    **factors: Any,
) -> list[Run]:
    """Every strategy x threads x round of every experiment, in one campaign that began on `day` after EPOCH.

    A strategy may be a mapping with parameters. `factors` replace or add fields of the spec and belong to the
    definition. Runs of strategies in `unsupported` have that status and a reason. `platform` changes facts of the
    machine.
    """
    return [
        run
        for name in experiments
        for number in range(1, rounds + 1)
        for run in round_of(
            name,
            number,
            [
                TrialSpec.model_validate(SPEC | factors | _variant(s) | {"threads": w})
                for s in strategies
                for w in threads
            ],
            scale=scale,
            campaign=campaign,
            start=EPOCH + timedelta(days=day, minutes=number),
            unsupported=unsupported,
            disturbed=number in disturbed_rounds,
            platform=platform,
        )
    ]


def _variant(strategy: str | Mapping[str, Any]) -> Mapping[str, Any]:
    return {"strategy": strategy} if isinstance(strategy, str) else strategy


def backend(name: str, **numbers: Any) -> Backend:
    """An emulator of a machine of that name, with other numbers."""
    config = EMULATOR | {"name": name} | numbers
    return Backend(kind="emulator", name=name, version="0.1.0", config_sha256=sha256_of(config), config=config)


def without_result(run: Run, status: str, reason: str) -> Run:
    """The run without a result, with this status and reason."""
    kept = run.model_dump(include={"uid", "campaign", "experiment", "round", "ordinal", "order_seed", "trial_seed",
                                   "resumed", "started_at_utc", "spec", "dataset_sha256", "evidence", "time_domain",
                                   "backend", "platform", "environment", "software"})  # fmt: skip
    return Run.model_validate({**kept, "status": status, "reason": reason})


def round_of(
    name: str,
    number: int,
    points: Sequence[TrialSpec],
    *,
    scale: str = "full",
    campaign: str = "campaign-1",
    start: datetime = EPOCH,
    unsupported: Sequence[str] = (),
    disturbed: bool = False,
    platform: Mapping[str, Any] | None = None,
) -> Iterator[Run]:
    """A run of each point, in order; the other arguments are those of `sample_runs`."""
    definition = {"points": [spec.identity() for spec in points]}
    machine = PLATFORM | dict(platform or {})
    for ordinal, spec in enumerate(points):
        identity = f"{campaign}/{scale}/{name}/{number}/{spec.sha256}/{sha256_of(machine)}"
        can_run = spec.strategy not in unsupported
        yield Run(
            uid=str(uuid.uuid5(uuid.NAMESPACE_OID, identity)),
            campaign=CampaignRef(uid=campaign, created_at_utc=_utc(start - timedelta(minutes=number))),
            experiment=ExperimentRef.model_validate(
                {"name": name, "scale": scale, "definition_sha256": sha256_of(definition), "definition": definition}
            ),
            round=number,
            ordinal=ordinal,
            order_seed=number,
            trial_seed=spec.seed + number - 1,
            resumed=False,
            started_at_utc=_utc(start + timedelta(seconds=ordinal)),
            spec=spec,
            dataset_sha256="d" * 64,
            evidence=spec.evidence,
            time_domain="wall",
            backend=backend(spec.profile) if spec.profile else None,
            platform=machine,
            environment=ENVIRONMENT,
            software=SOFTWARE,
            **(_result(spec, identity, disturbed) if can_run else _refusal(spec)),
        )


def _refusal(spec: TrialSpec) -> dict[str, Any]:
    return {"status": "unsupported", "reason": f"{spec.strategy} needs hardware that this machine lacks"}


def _result(spec: TrialSpec, identity: str, disturbed: bool) -> dict[str, Any]:
    noise = int(hashlib.sha256(identity.encode()).hexdigest()[:8], 16) / 2**32
    serial = {"tf_nolock": 0.02, "stm": 0.4}.get(spec.strategy, 0.1)
    loop_s = spec.iterations * 1e-4 * (serial + (1 - serial) / spec.threads) * (1 + 0.04 * noise)
    accuracy = 0.9 + 0.01 * noise
    return {
        "status": "ok",
        "machine": MachineState(
            load1_before=0.0, load1_after=0.5, steal_fraction=0.0, others_fraction=0.01, disturbed=disturbed
        ),
        "setup_s": 0.25,
        "loop_s": loop_s,
        "evaluation_s": 0.05,
        "total_s": loop_s + 0.3,
        "final_accuracy": accuracy,
        "curve": _curve(spec, loop_s, accuracy),
        "counters": [_counters(spec, worker, variable) for worker in range(spec.threads) for variable in VARIABLES],
        "aborts": [abort for worker in range(spec.threads) for abort in _aborts(spec, worker)],
        "staleness": [
            Staleness(worker=worker, staleness=behind, steps=spec.iterations // spec.threads // (behind + 1))
            for worker in range(spec.threads)
            for behind in range(spec.threads)
        ],
        **(_full_measures(spec) if spec.measures == "full" else {}),
        **(_cluster(spec, loop_s) if spec.driver == "cluster" else {}),
    }


def _full_measures(spec: TrialSpec) -> dict[str, Any]:
    """The lost updates of W grow with the number of workers, b loses none; no read through the strategy is torn.

    With an optimiser that keeps arrays, a tenth of the elements of W is inconsistent with them for each other worker.
    """
    steps, others = spec.iterations // spec.threads, spec.threads - 1
    of_workers = [(worker, variable) for worker in range(spec.threads) for variable in VARIABLES]
    torn = steps // 10 if others and spec.reading == "plain" else 0
    return {
        "retries": [
            Retries(worker=worker, variable=variable, retries=retries, sections=steps // (retries + 1))
            for worker, variable in of_workers
            for retries in range(spec.threads)
        ],
        "failed_publications": [
            FailedPublications(worker=worker, variable=variable, failed_publications=2, updates=steps)
            for worker, variable in of_workers
        ],
        "taken_blocks": [
            TakenBlocks(worker=worker, variable=variable, taken_blocks=3, updates=steps)
            for worker, variable in of_workers
        ],
        "reads": [Reads(worker=worker, variable=variable, reads=steps, torn=torn) for worker, variable in of_workers],
        "lost": [
            Lost(
                variable=variable,
                expected=1000,
                lost=min(50 * others, 1000) if variable == "W" else 0,
                elements=size if spec.optimiser != "sgd" else None,
                inconsistent=size * min(others, 10) // 10 * (variable == "W") if spec.optimiser != "sgd" else None,
            )
            for variable, size in zip(VARIABLES, (7840, 10), strict=True)
        ],
    }


def _cluster(spec: TrialSpec, loop_s: float) -> dict[str, Any]:
    """The processes and the phases; each worker is a little slower than the one before it."""
    return {
        "processes": [
            *[Process(role="server", index=index, host="host-a", cpu_s=0.5) for index in range(spec.servers or 0)],
            *[
                Process(
                    role="worker", index=index, host="host-a", steps=spec.iterations // spec.threads,
                    loop_s=loop_s * (1 - 0.01 * index), cpu_s=0.25,
                )
                for index in range(spec.threads)
            ],
        ],
        "phases": [
            Phase(
                worker=worker, phase=phase, samples=TRACED, seconds=seconds * (1 + 0.1 * worker),
                **TRAFFIC.get(phase, {}),
            )
            for worker in range(spec.threads)
            for phase, seconds in PHASES.items()
        ],
    }  # fmt: skip


def _curve(spec: TrialSpec, loop_s: float, accuracy: float) -> list[CurvePoint]:
    parts = spec.curve_points + 1
    return [
        CurvePoint(
            iteration=spec.iterations * k // parts, elapsed_s=loop_s * k / parts, accuracy=accuracy * k / (k + 0.2)
        )
        for k in range(1, parts)
    ]


def _counters(spec: TrialSpec, worker: int, variable: str) -> Counters:
    updates = spec.iterations // spec.threads
    locks = {"lock_waited_s": 0.001 * (spec.threads - 1), "lock_held_s": 0.002} if spec.measures == "full" else {}
    if spec.strategy not in TRANSACTIONAL:
        return Counters(worker=worker, variable=variable, updates=updates, **locks)
    fallbacks = updates // 10 * (spec.threads - 1) // spec.threads
    commits = updates - fallbacks
    attempts = commits + sum(abort.n for abort in _aborts(spec, worker) if abort.variable == variable)
    return Counters(
        worker=worker,
        variable=variable,
        updates=updates,
        commits=commits,
        fallbacks=fallbacks,
        attempts=None if spec.strategy == "tle" else attempts,  # glibc does not report it
        **locks,
    )


def _aborts(spec: TrialSpec, worker: int) -> Iterator[Abort]:
    if spec.strategy in TRANSACTIONAL - {"tle"}:
        for variable in VARIABLES:
            for family, (code, each) in ABORTS[spec.strategy].items():
                yield Abort.model_validate(
                    {
                        "worker": worker,
                        "variable": variable,
                        "mechanism": MECHANISM.get(spec.strategy, spec.strategy),
                        "raw_code": code,
                        "family": family,
                        "n": each * (spec.threads - 1),
                    }
                )


def _utc(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
