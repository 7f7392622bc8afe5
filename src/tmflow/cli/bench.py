"""`tmflow bench`: what an update costs under each variant."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tmflow.cli.saving import require_writable

app = typer.Typer(help="Measure what an update costs.", no_args_is_help=True, rich_markup_mode=None)

Strategies = Annotated[
    str | None,
    typer.Option(
        help="Variants, with commas between: stm or stm:design=wt:manager=delay; also the references mutex_loop and "
        "always_aborts:budget=5. All strategies that run here if not given."
    ),
]
Reference = Annotated[
    str | None, typer.Option(help="The variant that ratios are to; lock if it is measured, else the first.")
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Also keep everything in this file, for `tmflow bench report`.")
    ] = None,
) -> None:
    """Time updates of one float32 variable by many threads in full contention, and count what becomes of each.

    us_per_update is wall time over all updates of all threads, and gb_per_s counts two reads and one write of 4 bytes
    per element. memcpy_us, once per size and number of threads, is the same for copies: all threads at once, each
    copying 6 bytes per element from and to memory of its own, which moves as many bytes as an update does.
    """
    from tmflow.bench import columns, saved, table
    from tmflow.bench.plan import make_plan
    from tmflow.bench.rows import TimedVariant, printed
    from tmflow.bench.run import run

    plan = make_plan(elements, threads, strategy, rounds, seed, reference)
    if save:
        require_writable(save)
    benchmark = run(plan)
    if save:
        saved.write(save, benchmark)
    if as_json:
        for row in benchmark.rows:
            typer.echo(json.dumps(printed(row)))
        for one in benchmark.left_out:
            print(f"tmflow: {columns.left_out(one)}", file=sys.stderr)
    else:
        typer.echo(table.table(benchmark))
    broken = [row for row in benchmark.rows if isinstance(row, TimedVariant) and not row.kept]
    for row in broken:
        print(
            f"tmflow: {row.variant} promises {row.promise} and did not keep it with "
            f"{columns.size(row.elements, row.threads)}.",
            file=sys.stderr,
        )
    if broken or any(one.failed for one in benchmark.left_out):
        raise typer.Exit(1)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="A file of `tmflow bench apply --save`.")],
    reference: Annotated[
        str | None, typer.Option(help="The variant that ratios are to; that of the file if not given.")
    ] = None,
) -> None:
    """Print a saved benchmark as Markdown tables."""
    from tmflow.bench import saved
    from tmflow.bench.compared import relative_to
    from tmflow.bench.report import markdown

    benchmark = saved.read(file)
    typer.echo(markdown(relative_to(benchmark, reference) if reference else benchmark))
