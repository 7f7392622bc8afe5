"""`tmflow train`: train a model for one or more rounds, each in a fresh process."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from tmflow.base.paths import results_dir
from tmflow.cli.options import require_writable, with_factors
from tmflow.runfile.record import NO_TIME, Run, shares, shown, write
from tmflow.spec.models import MODELS, factors_of
from tmflow.study.config import make_spec

MODEL_HELP = f"{'; '.join(f'{name}: {model.summary}' for name, model in MODELS.items())}."
Rounds = Annotated[int, typer.Option(help="Fresh processes, each trains once with the next seed.")]


@with_factors
def train(
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = "mnist_softmax",
    strategy: Annotated[
        str, typer.Option(help="How concurrent updates are synchronised; `tmflow doctor` lists the strategies.")
    ] = "lock",
    driver: Annotated[
        str, typer.Option(help="session: Python threads share one TensorFlow session; native: C++ threads, without it.")
    ] = "session",
    threads: Annotated[int, typer.Option(help="Worker threads.")] = 1,
    batch: Annotated[int, typer.Option(help="Images per step.")] = 100,
    iterations: Annotated[int, typer.Option(help="Steps in all, split over the workers.")] = 1000,
    learning_rate: Annotated[float, typer.Option("--learning-rate", "--lr", help="Of gradient descent.")] = 0.5,
    rounds: Rounds = 1,
    dataset: Annotated[str, typer.Option(help="mnist, digits, or auto: MNIST where it can be had.")] = "auto",
    save: Annotated[
        bool, typer.Option("--save", help="Also store the runs in the database, where portal and notebooks find them.")
    ] = False,
    save_file: Annotated[Path | None, typer.Option(help="Also write the runs into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per round.")] = False,
    **factors: Any,
) -> None:
    """Train a model with many threads under a strategy, and print speed and accuracy."""
    given: dict[str, Any] = {
        "model": model, "strategy": strategy, "driver": driver, "threads": threads, "batch": batch,
        "iterations": iterations, "learning_rate": learning_rate,
        **factors_of(model), **{name: value for name, value in factors.items() if value is not None},
    }  # fmt: skip
    from tmflow import datasets
    from tmflow.store import engine, schema, url
    from tmflow.study.adhoc import check_rounds, store_round, train_rounds

    make_spec({**given, "dataset": "mnist"}, "tmflow train")  # before any download
    check_rounds(rounds)
    if save_file:
        require_writable(save_file, "--save-file")
    database = engine.url_from_env(results_dir() / "study.db")
    if save:
        schema.require_usable(database)
    resolved = datasets.resolve(dataset)
    if resolved.warning:
        print(f"tmflow: {resolved.warning}", file=sys.stderr)
    spec = make_spec({**given, "dataset": resolved.name}, "tmflow train")
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        for run in train_rounds(spec, rounds, Path(folder)):
            runs.append(run)
            if save_file:
                write(save_file, runs)
            if save:
                store_round(database, Path(folder), run.round, keep_in=results_dir())
            typer.echo(_as_json(run) if as_json else _as_line(run))
    if save:
        print(f"tmflow: the runs are stored in {url.shown(database)}.", file=sys.stderr)
    if any(run.status != "ok" for run in runs):
        raise typer.Exit(1)


def _as_json(run: Run) -> str:
    return json.dumps({**shown(run), "dataset": run.spec.dataset}, sort_keys=True)


def _as_line(run: Run) -> str:
    if run.loop_s is None or run.final_accuracy is None:
        return f"round {run.round}: {run.status}: {run.reason}"
    time = f"{run.loop_s:.3f} s, {1e6 * run.loop_s / run.spec.iterations:.1f} us per step"
    fused = f", fused updates of {', '.join(run.fused)}" if run.fused else ""
    evidence = f"{run.evidence}: {run.backend.name}" if run.backend else run.evidence
    return (
        f"round {run.round}: {time if run.shows_time else NO_TIME}{_commits(run)}{fused}{_full_measures(run)}, "
        f"test accuracy {run.final_accuracy:.4f} on {run.spec.dataset} ({evidence})"
    )


def _commits(run: Run) -> str:
    """The share of critical sections that committed transactionally, if it was counted."""
    ends = [(row.commits, row.fallbacks or 0) for row in run.counters if row.commits is not None]
    commits, sections = sum(end[0] for end in ends), sum(map(sum, ends))
    return f", {100 * commits / sections:.1f} % of {sections} critical sections committed" if sections else ""


def _full_measures(run: Run) -> str:
    """The results of full measures, if the run has them."""
    return "".join(f", {100 * share:.2f} % of {name}" for name, share in shares(shown(run)).items())
