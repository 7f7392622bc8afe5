"""`tmflow cluster task`: one task of a cluster, started by hand or by Slurm, on one machine or on several hosts."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tmflow.base.errors import BadInput
from tmflow.base.paths import results_dir
from tmflow.cli.checkpoints import CheckpointEveryOption, CheckpointOption, advise, announce, plan_of
from tmflow.cli.options import DatasetOption, JsonOption, database, require_writable, resolve_dataset, with_factors
from tmflow.cli.train import (
    BatchOption,
    IterationsOption,
    LearningRateOption,
    ModelOption,
    SaveFileOption,
    SaveOption,
    StrategyOption,
    format_run,
)
from tmflow.spec.models import factors_of
from tmflow.study.grid import make_spec

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec
    from tmflow.training.cluster.addresses import Addresses
    from tmflow.training.cluster.checkpoint import CheckpointPlan
    from tmflow.training.cluster.mailbox import Name

app = typer.Typer(help="Train with parameter servers and workers on several hosts.", no_args_is_help=True)
WHERE = "tmflow cluster task"


@app.callback()
def _group() -> None:
    pass


@app.command()
@with_factors
def task(
    job: Annotated[Literal["ps", "worker"] | None, typer.Option(help="ps is a parameter server.")] = None,
    index: Annotated[int | None, typer.Option(help="Number of this task, from 0; worker 0 is the chief.")] = None,
    spec: Annotated[Path | None, typer.Option(help="YAML file with the host:port of every ps and worker.")] = None,
    from_slurm: Annotated[
        bool,
        typer.Option("--from-slurm", help="Take these three from Slurm; the first tasks are the servers."),
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for other tasks: to come, and later to answer.")] = 60,
    model: ModelOption = "mnist_softmax",
    strategy: StrategyOption = "lock",
    driver: Annotated[str | None, typer.Option(hidden=True)] = None,
    threads: Annotated[int | None, typer.Option(help="Number of workers; it follows from the addresses.")] = None,
    batch: BatchOption = 100,
    iterations: IterationsOption = 1000,
    learning_rate: LearningRateOption = 0.5,
    dataset: DatasetOption = "auto",
    save: SaveOption = False,
    save_file: SaveFileOption = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEveryOption = None,
    as_json: JsonOption = False,
    **factors: Any,
) -> None:
    """Be one task of a cluster: a parameter server, or a worker. docs/distributed.md shows how.

    Start every task with the same options; only the chief, worker 0, prints and saves the result.
    """
    from tmflow.training.cluster.mailbox import CHIEF_WORKER

    if not 0 < wait <= 86_400:  # also false for nan
        raise BadInput(f"--wait is {wait:g}, but should be a number of seconds above 0 and at most 86400.")
    addresses, name = _place(job, index, spec, from_slurm, factors.get("servers") or 1)
    given: dict[str, Any] = {
        "model": model, "strategy": strategy, "batch": batch, "iterations": iterations, "learning_rate": learning_rate,
        **factors_of(model), **{factor: value for factor, value in factors.items() if value is not None},
        **_sizes(addresses, {**factors, "driver": driver, "threads": threads}), "dataset": "mnist",
    }  # fmt: skip
    trial = make_spec(given, WHERE)  # before any download
    is_chief, plan = name == CHIEF_WORKER, None
    if is_chief:
        _require_places(save, save_file)
        saves = save or save_file is not None
        plan = plan_of(checkpoint, checkpoint_every, driver="cluster", rounds=1, saves=saves)
    if name.job == "worker":
        trial = make_spec({**given, "dataset": resolve_dataset(dataset).name}, WHERE)
    # Python handles signals only between bytecodes, and waiting for another task is one native call.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if is_chief:
        _lead(addresses, name, wait, trial, plan, save, save_file, as_json)
    else:
        _serve_or_follow(addresses, name, wait, trial)


def _place(
    job: Literal["ps", "worker"] | None, index: int | None, spec: Path | None, from_slurm: bool, servers: int
) -> tuple[Addresses, Name]:
    """The addresses of all tasks, and which of them this is."""
    from tmflow.training.cluster.addresses import load_addresses
    from tmflow.training.cluster.mailbox import Name
    from tmflow.training.cluster.slurm import from_slurm as of_slurm

    if from_slurm:
        if any(option is not None for option in (job, index, spec)):
            raise BadInput("--from-slurm gives job, index and addresses: leave out --job, --index and --spec.")
        return of_slurm(os.environ, servers)
    if job is None or index is None or spec is None:
        raise BadInput("give --job, --index and --spec, or --from-slurm in a job of Slurm.")
    addresses = load_addresses(spec)
    addresses.of(job, index)  # raises if there is no such task
    return addresses, Name(job, index)


def _sizes(addresses: Addresses, factors: dict[str, Any]) -> dict[str, Any]:
    """The factors that follow from the addresses. Raises BadInput if an option contradicts them."""
    sizes = {"driver": "cluster", "threads": len(addresses.worker), "servers": len(addresses.ps)}
    for factor, value in sizes.items():
        if factors.get(factor) not in (None, value):
            raise BadInput(f"--{factor} is {factors[factor]}, but with these addresses it is {value}: leave it out.")
    return sizes


def _require_places(save: bool, save_file: Path | None) -> None:
    """Raise BadInput if the chief could not save its run."""
    from tmflow.store import schema

    if save_file:
        require_writable(save_file, "--save-file")
    if save:
        schema.require_usable(database())


def _serve_or_follow(addresses: Addresses, name: Name, wait: float, trial: TrialSpec) -> None:
    from tmflow.training.cluster.member import Member, end_process, follow, require_here, serve

    if name.job == "worker":
        require_here(trial)
    member = Member(addresses, name, wait, trial.transport)
    end_process(lambda: serve(member, trial) if name.job == "ps" else follow(member, trial))


def _lead(
    addresses: Addresses,
    name: Name,
    wait: float,
    trial: TrialSpec,
    plan: CheckpointPlan | None,
    save: bool,
    save_file: Path | None,
    as_json: bool,
) -> None:
    from tmflow.base.locks import machine_to_itself
    from tmflow.runfile.record import write
    from tmflow.store import engine
    from tmflow.study.adhoc import store_round, train_here
    from tmflow.training.cluster.checkpoint import resume
    from tmflow.training.cluster.chief import Chief
    from tmflow.training.cluster.member import Member, end_process, require_here

    def work() -> bool:
        with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
            with machine_to_itself():
                chief.gather()
                run = train_here(trial, chief.places, Path(folder), lambda *_: chief, resumed)
            if plan:
                advise(plan, run)
            if save_file:
                write(save_file, [run])
            if save:
                store_round(database(), Path(folder), run.round, keep_in=results_dir())
        typer.echo(format_run(run, as_json))
        if save:
            print(f"tmflow: the runs are stored in {engine.shown(database())}.", file=sys.stderr)
        return run.status == "ok"

    require_here(trial)
    if plan:
        resume(plan.file, trial)  # raises if it does not fit, before this task listens
    member = Member(addresses, name, wait, trial.transport)
    resumed = plan is not None and announce(plan, trial)
    chief = Chief(member, trial, plan)
    end_process(work)
