"""`tmflow compare`: the same training under several strategies, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tmflow.cli.options import DatasetOption, JsonOption, print_result, require_writable, resolve_dataset, with_factors


@with_factors
def compare(
    strategy: Annotated[
        list[str], typer.Argument(help="Strategies or variants, such as lock striped:block=0; ratios are to the first.")
    ],
    rounds: Annotated[int, typer.Option(help="How often each is trained, in turns, in fresh processes.")] = 8,
    scan: Annotated[
        tuple[str, int, int] | None,
        typer.Option(help="A factor, its lowest and its highest value: --scan threads 1 8 tries 1, 2, 4, 8."),
    ] = None,
    export_markdown: Annotated[Path | None, typer.Option(help="Also write the comparison to this file.")] = None,
    dataset: DatasetOption = "auto",
    as_json: JsonOption = False,
    **factors: Any,
) -> None:
    """Train a model under each strategy, in interleaved rounds, and say how fast each is beside the first.

    The ratio of speeds is paired by round, with a 95 % interval. An interval that contains 1 shows no difference.
    """
    from tmflow.base.files import write_text
    from tmflow.benchmark import side_by_side, steps

    scanned = side_by_side.parse_scan(scan)
    given = {name: value for name, value in factors.items() if value is not None}
    steps.check(side_by_side.make_subjects(strategy, given, scanned, "mnist"), rounds, None)  # before any download
    if export_markdown:
        require_writable(export_markdown)
    subjects = side_by_side.make_subjects(strategy, given, scanned, resolve_dataset(dataset).name)
    measured = steps.measure(subjects, rounds, None)
    compared = side_by_side.compare(measured, strategy, scanned)
    print_result(as_json, side_by_side.json_rows(compared), side_by_side.sentences(compared, strategy[0], scanned))
    if export_markdown:
        write_text(export_markdown, side_by_side.markdown(compared, strategy[0], scanned))
    for left_out in measured.left_out:
        print(f"tmflow: {left_out.name} was not measured: {left_out.reason}.", file=sys.stderr)
    if measured.left_out or any(row.rounds < rounds for row in measured.rows):
        raise typer.Exit(1)
