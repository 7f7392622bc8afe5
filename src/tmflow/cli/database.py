"""`tmflow ingest` and `tmflow db`: the database of runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.paths import results_dir

app = typer.Typer(help="Create, upgrade and check the database of runs.", no_args_is_help=True, rich_markup_mode=None)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def ingest(
    files: Annotated[list[Path], typer.Argument(help="Run files (.jsonl), as `tmflow study run` writes them.")],
    as_json: JsonOption = False,
) -> None:
    """Store run files in the database; runs that are stored already stay unchanged.

    The database is results/study.db, or the SQLAlchemy URL in TMFLOW_DB_URL.
    """
    from tmflow.store import engine, ingest

    report = ingest.ingest(engine.url_from_env(results_dir() / "study.db"), files)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=1))
    else:
        typer.echo(f"{report.runs_new} runs stored, {report.runs_known} known already, from {len(files)} files.")


@app.command()
def upgrade() -> None:
    """Create the database or upgrade it to the newest revision; a SQLite file with runs is backed up first."""
    from tmflow.store import engine, schema

    before, now, copy = schema.upgrade(engine.url_from_env(results_dir() / "study.db"))
    typer.echo(f"the database is at revision {now}" + ("." if before == now else f" (before: {before or 'none'})."))
    if copy:
        typer.echo(f"The previous database is in {copy}; delete it once the upgraded database works.")


@app.command()
def check(as_json: JsonOption = False) -> None:
    """Check whether the database is intact and up to date."""
    from tmflow.store import engine, schema

    state = schema.check(engine.url_from_env(results_dir() / "study.db"))
    if as_json:
        typer.echo(json.dumps(asdict(state), indent=1))
    else:
        typer.echo(f"revision {state.revision} (newest: {state.head}): {'ok' if state.ok else 'not ok'}.")
        for problem in state.problems:
            typer.echo(f"  {problem}")
    if not state.ok:
        raise typer.Exit(1)


@app.command()
def snapshot(file: Annotated[Path, typer.Argument(help="The file to write; one that is there is replaced.")]) -> None:
    """Copy the database to one file; other processes may read and write it meanwhile."""
    from tmflow.store import backup as copies
    from tmflow.store import engine

    n_bytes = copies.snapshot(engine.url_from_env(results_dir() / "study.db"), file)
    typer.echo(f"{file}: {n_bytes / 1e6:.1f} MB.")
