"""`tmflow ingest` and `tmflow db`: the database of runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tmflow.cli.options import JsonOption, database, print_result

app = typer.Typer(help="Create, upgrade and check the database of runs.", no_args_is_help=True, rich_markup_mode=None)


def ingest(
    files: Annotated[list[Path], typer.Argument(help="Run files (.jsonl), as `tmflow study run` writes them.")],
    as_json: JsonOption = False,
) -> None:
    """Store run files in the database; runs that are stored already stay unchanged.

    The database is results/study.db, or the SQLAlchemy URL in TMFLOW_DB_URL.
    """
    from tmflow.store import ingest

    report = ingest.ingest(database(), files)
    line = f"{report.runs_new} runs stored, {report.runs_known} known already, from {len(files)} files."
    print_result(as_json, asdict(report), [line])


@app.command()
def upgrade() -> None:
    """Create the database or upgrade it to the newest revision; a SQLite file with runs is backed up first."""
    from tmflow.store import schema

    before, now, copy = schema.upgrade(database())
    typer.echo(f"the database is at revision {now}" + ("." if before == now else f" (before: {before or 'none'})."))
    if copy:
        typer.echo(f"The previous database is in {copy}; delete it once the upgraded database works.")


@app.command()
def check(as_json: JsonOption = False) -> None:
    """Check whether the database is intact and up to date."""
    from tmflow.store import schema

    state = schema.check(database())
    line = f"revision {state.revision} (newest: {state.head}): {'ok' if state.ok else 'not ok'}."
    print_result(as_json, asdict(state), [line, *(f"  {problem}" for problem in state.problems)])
    if not state.ok:
        raise typer.Exit(1)


@app.command()
def snapshot(file: Annotated[Path, typer.Argument(help="The file to write; an existing file is replaced.")]) -> None:
    """Copy the database to one file; other processes may read and write it meanwhile."""
    from tmflow.store import schema

    n_bytes = schema.snapshot(database(), file)
    typer.echo(f"{file}: {n_bytes / 1e6:.1f} MB.")
