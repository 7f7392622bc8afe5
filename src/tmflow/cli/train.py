"""`tmflow train`: train a model for one or more rounds, each in a fresh process."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from tmflow.base.errors import BadInput
from tmflow.base.paths import results_dir
from tmflow.cli.checkpoints import CheckpointEveryOption, CheckpointOption, plan_of, train_with
from tmflow.cli.options import DatasetOption, database, require_writable, resolve_dataset, with_factors
from tmflow.runfile.record import NO_TIME, Run, shares, shown, write
from tmflow.spec.factors import OWN_DATA, SYNTHETIC
from tmflow.spec.models import MODELS, factors_of, models_with_own_data, trained_models
from tmflow.study.grid import make_spec

MODEL_HELP = f"{'; '.join(f'{name}: {MODELS[name].summary}' for name in trained_models())}."
DRIVER_HELP = (
    "session: Python threads share one TensorFlow session; native: C++ threads, without it; cluster: processes, "
    "parameter servers and workers of TensorFlow's distributed runtime."
)
ModelOption = Annotated[str, typer.Option(help=MODEL_HELP)]
StrategyOption = Annotated[
    str, typer.Option(help="How concurrent updates are synchronised; `tmflow doctor` lists the strategies.")
]
BatchOption = Annotated[int, typer.Option(help="Images per step.")]
IterationsOption = Annotated[int, typer.Option(help="Total number of steps, divided among the workers.")]
LearningRateOption = Annotated[float, typer.Option("--learning-rate", "--lr", help="Learning rate.")]
SaveOption = Annotated[
    bool, typer.Option("--save", help="Also store the runs in the database, where portal and notebooks find them.")
]
SaveFileOption = Annotated[Path | None, typer.Option(help="Also write the runs to this file.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Train on this file of yours in place of synthetic data: "
        f"{'; '.join(f'{name}: {MODELS[name].own_data}' for name in models_with_own_data())}.",
    ),
]
Rounds = Annotated[int, typer.Option(help="Number of fresh processes; each trains once, with the next seed.")]


@with_factors
def train(
    model: ModelOption = "mnist_softmax",
    strategy: StrategyOption = "lock",
    driver: Annotated[str, typer.Option(help=DRIVER_HELP)] = "session",
    threads: Annotated[int, typer.Option(help="Workers: threads, or with driver cluster processes.")] = 1,
    batch: BatchOption = 100,
    iterations: IterationsOption = 1000,
    learning_rate: LearningRateOption = 0.5,
    rounds: Rounds = 1,
    dataset: DatasetOption = "auto",
    data: DataOption = None,
    save: SaveOption = False,
    save_file: SaveFileOption = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: CheckpointEveryOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per round.")] = False,
    **factors: Any,
) -> None:
    """Train a model with many threads under a strategy, and print speed and accuracy."""
    given: dict[str, Any] = {
        "model": model, "strategy": strategy, "driver": driver, "threads": threads, "batch": batch,
        "iterations": iterations, "learning_rate": learning_rate,
        **factors_of(model), **{name: value for name, value in factors.items() if value is not None},
    }  # fmt: skip
    from tmflow.store import engine, schema
    from tmflow.study.adhoc import check_rounds, store_round, train_rounds

    if data is not None:
        given |= _of_own_data(model, data, factors)
    spec = make_spec({"dataset": "mnist", **given}, "tmflow train")  # before any download
    check_rounds(rounds)
    saves = save or save_file is not None
    plan = plan_of(checkpoint, checkpoint_every, driver=driver, rounds=rounds, saves=saves)
    if save_file:
        require_writable(save_file, "--save-file")
    stored_in = database()
    if save:
        schema.require_usable(stored_in)
    if spec.dataset not in (OWN_DATA, SYNTHETIC):
        spec = make_spec({**given, "dataset": resolve_dataset(dataset).name}, "tmflow train")
    if plan:
        run = train_with(plan, spec)
        typer.echo(format_run(run, as_json))
        raise typer.Exit(0 if run.status == "ok" else 1)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        for run in train_rounds(spec, rounds, Path(folder), data and data.absolute()):
            runs.append(run)
            if save_file:
                write(save_file, runs)
            if save:
                store_round(stored_in, Path(folder), run.round, keep_in=results_dir())
            typer.echo(format_run(run, as_json))
    if save:
        print(f"tmflow: the runs are stored in {engine.shown(stored_in)}.", file=sys.stderr)
    if any(run.status != "ok" for run in runs):
        raise typer.Exit(1)


def _of_own_data(model: str, path: Path, given: dict[str, Any]) -> dict[str, Any]:
    """The factors that follow from a file of the user. Raises BadInput if one of these is given, too."""
    from tmflow.training.own_data import load_own_data

    read = load_own_data(model, path)
    for name in (*read.sizes, "skew"):
        if given.get(name) is not None:
            raise BadInput(f"tmflow train: {name} follows from {path}, so it cannot be given.")
    requested = given.get("test_images")
    tested = read.tests if requested is None else min(requested, read.tests)
    return {"dataset": OWN_DATA, **read.sizes, "skew": None, "test_images": tested}


def format_run(run: Run, as_json: bool) -> str:
    """The result of a run as one line: JSON for programs, or for people."""
    return _as_json(run) if as_json else _as_line(run)


def _as_json(run: Run) -> str:
    return json.dumps({**shown(run), "dataset": run.spec.dataset}, sort_keys=True)


def _as_line(run: Run) -> str:
    if run.loop_s is None or run.final_accuracy is None:
        return f"round {run.round}: {run.status}: {run.reason}"
    time = f"{run.loop_s:.3f} s, {1e6 * run.loop_s / run.spec.iterations:.1f} us per step"
    parts = [time if run.shows_time else NO_TIME]
    counted = [(row.commits, row.fallbacks or 0) for row in run.counters if row.commits is not None]
    if sections := sum(map(sum, counted)):
        commits = sum(commits for commits, _ in counted)
        parts.append(f"{100 * commits / sections:.1f} % of {sections} critical sections committed")
    if run.fused:
        parts.append(f"fused updates of {', '.join(run.fused)}")
    parts += [f"{100 * share:.2f} % of {name}" for name, share in shares(shown(run)).items()]
    evidence = f"{run.evidence}: {run.backend.name}" if run.backend else run.evidence
    parts.append(f"test accuracy {run.final_accuracy:.4f} on {run.spec.dataset} ({evidence})")
    return f"round {run.round}: {', '.join(parts)}"
