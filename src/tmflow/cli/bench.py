"""`tmflow bench`: the cost of an update under each variant, and of a training step of a configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from tmflow.base.errors import BadInput
from tmflow.cli.options import require_writable

if TYPE_CHECKING:
    from tmflow.benchmark.rows import Header

app = typer.Typer(help="Measure what updates and training steps cost.", no_args_is_help=True, rich_markup_mode=None)

Strategies = Annotated[
    str | None,
    typer.Option(
        help="Variants, with commas between: stm or stm:design=wt:manager=delay; also the references "
        "mutex_loop:mutex=spin and always_aborts:budget=5. All strategies that run here if not given."
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(help="The baseline of ratios: a variant, or best_mutex (default), the fastest plain mutex."),
]


GradientKinds = Annotated[
    str,
    typer.Option(
        help="fresh: each thread writes its gradient before every update, as training does; constant: only once; "
        "or constant,fresh."
    ),
]


@app.command()
def apply(
    elements: Annotated[str | None, typer.Option(help="Sizes; 10,7850,3211264 if not given.")] = None,
    threads: Annotated[
        str | None, typer.Option(help="Threads at once; 1,2,4 if not given, as far as there are CPUs.")
    ] = None,
    strategy: Strategies = None,
    rounds: Annotated[int, typer.Option(help="Times that each is measured, in turns.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the order of the turns.")] = 0,
    reference: Reference = None,
    gradient: GradientKinds = "fresh",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Also keep everything in this file, for `tmflow bench report`.")
    ] = None,
) -> None:
    """Time updates of one float32 variable by many threads under full contention, and count their outcomes.

    us_per_update is wall time divided by the updates of all threads; gb_per_s counts two reads and one write of 4 bytes
    per element. memcpy_us, once per size and number of threads, is the time of concurrent copies of 6 bytes per element
    in private memory, which move as many bytes as an update. With fresh gradients, the time of an update excludes
    writing the gradient, which is measured separately.
    """
    from tmflow.benchmark import text as columns
    from tmflow.benchmark import text as table
    from tmflow.benchmark.rows import TimedVariant, json_fields
    from tmflow.benchmark.run import run
    from tmflow.benchmark.updates import make_plan

    plan = make_plan(elements, threads, strategy, rounds, seed, reference, gradient)
    if save:
        require_writable(save)
    benchmark = run(plan)
    broken = [
        f"{row.variant} violated its guarantee {row.promise} with {columns.size(row.elements, row.threads)}."
        for row in benchmark.rows
        if isinstance(row, TimedVariant) and not row.kept
    ]
    _output(
        benchmark, [json_fields(row) for row in benchmark.rows] if as_json else table.table(benchmark), save, broken
    )


@app.command()
def step(
    steps: Annotated[
        list[str] | None,
        typer.Option(
            "--step",
            help="A configuration: 'strategy=lock threads=2', or with a name 'mine: strategy=lock'. May be repeated.",
        ),
    ] = None,
    targets: Annotated[
        bool, typer.Option("--targets", help="Add the configurations of the project's targets.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="Times that each is trained, in turns, in fresh processes.")] = 8,
    reference: Annotated[
        str | None, typer.Option(help="The configuration that ratios are to; the first one if not given.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="mnist, digits, or auto: MNIST where it can be had.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Also keep everything in this file, for `tmflow bench report`.")
    ] = None,
) -> None:
    """Time the training steps of whole configurations: driver, model, strategy, batch, threads.

    us_per_step is the wall time of the workers' loops divided by the steps of all workers.
    """
    from tmflow import datasets
    from tmflow.benchmark import step_report
    from tmflow.benchmark import steps as measure
    from tmflow.benchmark.steps import OF_THE_TARGETS, parse_step

    texts = [*(OF_THE_TARGETS if targets else ()), *(steps or ())]
    measure.check([parse_step(text, "mnist") for text in texts], rounds, reference)  # before any download
    if save:
        require_writable(save)
    resolved = datasets.resolve(dataset)
    if resolved.warning:
        print(f"tmflow: {resolved.warning}", file=sys.stderr)
    benchmark = measure.measure([parse_step(text, resolved.name) for text in texts], rounds, reference)
    _output(benchmark, _dump_rows(benchmark.rows) if as_json else step_report.table(benchmark), save, [])
    if any(row.rounds < rounds for row in benchmark.rows):
        raise typer.Exit(1)


@app.command()
def read(
    elements: Annotated[str | None, typer.Option(help="Sizes; 7850,3211264 if not given.")] = None,
    readers: Annotated[str | None, typer.Option(help="Threads that read; 1 if not given.")] = None,
    writers: Annotated[str | None, typer.Option(help="Threads that update meanwhile; 1 if not given.")] = None,
    strategy: Strategies = None,
    rounds: Annotated[int, typer.Option(help="Times that each is measured, in turns.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the order of the turns.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Also keep everything in this file, for `tmflow bench report`.")
    ] = None,
) -> None:
    """Time reads of one float32 variable under concurrent updates: through the strategy, and by a plain copy."""
    from tmflow.benchmark import read_report, reads
    from tmflow.benchmark.reads import make_read_plan

    plan = make_read_plan(elements, readers, writers, strategy, rounds, seed)
    if save:
        require_writable(save)
    benchmark = reads.run(plan)
    broken = [
        f"{row.name}: violated its guarantee {row.promise}; {row.torn_fraction:.3g} of the reads were torn."
        for row in benchmark.rows
        if not row.kept
    ]
    _output(benchmark, _dump_rows(benchmark.rows) if as_json else read_report.table(benchmark), save, broken)


def _dump_rows(rows: Iterable[BaseModel]) -> list[dict[str, Any]]:
    return [row.model_dump(mode="json") for row in rows]


def _output(benchmark: Header, content: str | list[dict[str, Any]], save: Path | None, broken: list[str]) -> None:
    """Save a benchmark if requested, and print it as a table or as JSON rows.

    Exits with 1 if a guarantee was violated (one sentence in `broken` each), or if a requested measurement failed.
    """
    from tmflow.benchmark import storage
    from tmflow.benchmark import text as columns

    if save:
        storage.write(save, benchmark)
    if isinstance(content, str):
        typer.echo(content)
    else:
        for row in content:
            typer.echo(json.dumps(row))
        for line in columns.left_out(benchmark):  # the table includes them
            print(f"tmflow: {line}", file=sys.stderr)
    for line in broken:
        print(f"tmflow: {line}", file=sys.stderr)
    if broken or any(one.failed for one in benchmark.left_out):
        raise typer.Exit(1)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="A file of `tmflow bench ... --save`.")],
    reference: Annotated[
        str | None, typer.Option(help="Of updates: what ratios are to; that of the file if not given.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(help="Also write plots as SVG to this folder; the Markdown links to them as neighbouring files."),
    ] = None,
) -> None:
    """Print a saved benchmark as Markdown tables."""
    from tmflow.base.files import write_text
    from tmflow.benchmark.comparison import relative_to
    from tmflow.benchmark.kinds import read_any, shown
    from tmflow.benchmark.storage import Saved
    from tmflow.charts import figures

    benchmark = read_any(file)
    if reference is not None:
        if not isinstance(benchmark, Saved):
            raise BadInput(f"--reference is for updates, and {file} is of another kind: {benchmark.kind}.")
        benchmark = relative_to(benchmark, reference)
    text, drawn = shown(benchmark, file.stem if plots else None)
    for name, spec in drawn.items():
        try:
            (plots or Path()).mkdir(parents=True, exist_ok=True)
            write_text((plots or Path()) / name, figures.svg(spec))
        except OSError as error:
            raise BadInput(f"--plots {plots} cannot be written: {error.strerror}.") from error
    typer.echo(text)
