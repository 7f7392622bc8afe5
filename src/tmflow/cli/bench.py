"""`tmflow bench`: the cost of an update under each variant, and of a training step of a configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tmflow.base.errors import BadInput
from tmflow.cli.options import DatasetOption, require_writable, resolve_dataset

if TYPE_CHECKING:
    from tmflow.benchmark.storage import Benchmark

app = typer.Typer(help="Measure what updates and training steps cost.", no_args_is_help=True, rich_markup_mode=None)

Strategies = Annotated[
    str | None,
    typer.Option(
        help="Variants, with commas between: stm or stm:design=wt:manager=delay; also the references "
        "mutex_loop:mutex=spin and always_aborts:budget=5. Default: all strategies that run here."
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
RoundsOption = Annotated[int, typer.Option(help="How often each is measured, in turns.")]
SeedOption = Annotated[int, typer.Option(help="Seed of the order of the turns.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
SaveOption = Annotated[Path | None, typer.Option(help="Also save everything to this file, for `tmflow bench report`.")]


@app.command()
def apply(
    elements: Annotated[str | None, typer.Option(help="Sizes; default: 10,7850,3211264.")] = None,
    threads: Annotated[
        str | None, typer.Option(help="Numbers of concurrent threads; default: 1,2,4, up to the number of CPUs.")
    ] = None,
    strategy: Strategies = None,
    rounds: RoundsOption = 8,
    seed: SeedOption = 0,
    reference: Reference = None,
    gradient: GradientKinds = "fresh",
    as_json: JsonLinesOption = False,
    save: SaveOption = None,
) -> None:
    """Time updates of one float32 variable by many threads under full contention, and count their outcomes.

    us_per_update is wall time divided by the updates of all threads; gb_per_s counts two reads and one write of 4 bytes
    per element. memcpy_us, once per size and number of threads, is the time of concurrent copies of 6 bytes per element
    in private memory, which move as many bytes as an update. With fresh gradients, the time of an update excludes
    writing the gradient, which is measured separately.
    """
    from tmflow.benchmark.plan import make_plan
    from tmflow.benchmark.storage import TimedVariant
    from tmflow.benchmark.text import size
    from tmflow.benchmark.updates import run

    plan = make_plan(elements, threads, strategy, rounds, seed, reference, gradient)
    if save:
        require_writable(save)
    benchmark = run(plan)
    broken = [
        f"{row.variant} violated its guarantee {row.consistency} with {size(row.elements, row.threads)}."
        for row in benchmark.rows
        if isinstance(row, TimedVariant) and not row.kept
    ]
    _output(benchmark, as_json, save, broken)


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
    rounds: Annotated[int, typer.Option(help="How often each is trained, in turns, in fresh processes.")] = 8,
    reference: Annotated[
        str | None, typer.Option(help="The baseline of ratios; default: the first configuration.")
    ] = None,
    dataset: DatasetOption = "auto",
    as_json: JsonLinesOption = False,
    save: SaveOption = None,
) -> None:
    """Time the training steps of whole configurations: driver, model, strategy, batch, threads.

    us_per_step is the wall time of the workers' loops divided by the steps of all workers.
    """
    from tmflow.benchmark import steps as measure
    from tmflow.benchmark.steps import OF_THE_TARGETS, parse_step

    texts = [*(OF_THE_TARGETS if targets else ()), *(steps or ())]
    measure.check([parse_step(text, "mnist") for text in texts], rounds, reference)  # before any download
    if save:
        require_writable(save)
    name = resolve_dataset(dataset).name
    benchmark = measure.measure([parse_step(text, name) for text in texts], rounds, reference)
    _output(benchmark, as_json, save)
    if any(row.rounds < rounds for row in benchmark.rows):
        raise typer.Exit(1)


@app.command()
def read(
    elements: Annotated[str | None, typer.Option(help="Sizes; default: 7850,3211264.")] = None,
    readers: Annotated[str | None, typer.Option(help="Numbers of threads that read; default: 1.")] = None,
    writers: Annotated[str | None, typer.Option(help="Numbers of threads that update meanwhile; default: 1.")] = None,
    strategy: Strategies = None,
    rounds: RoundsOption = 8,
    seed: SeedOption = 0,
    as_json: JsonLinesOption = False,
    save: SaveOption = None,
) -> None:
    """Time reads of one float32 variable under concurrent updates: through the strategy, and by a plain copy."""
    from tmflow.benchmark.reads import make_read_plan, measure_reads

    plan = make_read_plan(elements, readers, writers, strategy, rounds, seed)
    if save:
        require_writable(save)
    benchmark = measure_reads(plan)
    broken = [
        f"{row.name}: violated its guarantee {row.consistency}; {row.torn_fraction:.3g} of the reads were torn."
        for row in benchmark.rows
        if not row.kept
    ]
    _output(benchmark, as_json, save, broken)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="A file of `tmflow bench ... --save`.")],
    reference: Annotated[
        str | None, typer.Option(help="The baseline of ratios, for updates only; default: that of the file.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(help="Also write plots as SVG to this folder; the Markdown links to them as neighbouring files."),
    ] = None,
) -> None:
    """Print a saved benchmark as Markdown tables."""
    from tmflow.base.files import write_text
    from tmflow.benchmark.comparison import relative_to
    from tmflow.benchmark.markdown import render
    from tmflow.benchmark.storage import Saved, read_benchmark
    from tmflow.charts import figures

    benchmark = read_benchmark(file)
    if reference is not None:
        if not isinstance(benchmark, Saved):
            raise BadInput(f"--reference is for updates, and {file} is of another kind: {benchmark.kind}.")
        benchmark = relative_to(benchmark, reference)
    text, drawn = render(benchmark, file.stem if plots else None)
    if plots and drawn:
        try:
            plots.mkdir(parents=True, exist_ok=True)
            for name, spec in drawn.items():
                write_text(plots / name, figures.svg(spec))
        except OSError as error:
            raise BadInput(f"--plots {plots} cannot be written: {error.strerror}.") from error
    typer.echo(text)


def _output(benchmark: Benchmark, as_json: bool, save: Path | None, broken: Sequence[str] = ()) -> None:
    """Save a benchmark if requested, and print it as a table, or as JSON with one row per line.

    Exits with 1 if a guarantee was violated (one sentence in `broken` each), or if a requested measurement failed.
    """
    from tmflow.benchmark import text
    from tmflow.benchmark.storage import Saved, json_fields, write_benchmark

    if save:
        write_benchmark(save, benchmark)
    if not as_json:
        typer.echo(text.format_table(benchmark))
    elif isinstance(benchmark, Saved):
        for update in benchmark.rows:
            typer.echo(json.dumps(json_fields(update)))
    else:
        for row in benchmark.rows:
            typer.echo(json.dumps(row.model_dump(mode="json")))
    for line in [*(text.left_out(benchmark) if as_json else ()), *broken]:  # the table includes what was left out
        print(f"tmflow: {line}", file=sys.stderr)
    if broken or any(one.failed for one in benchmark.left_out):
        raise typer.Exit(1)
