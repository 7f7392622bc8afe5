"""`tmflow bundle import|withdraw|restore|list`: contributions in the database."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.paths import results_dir
from tmflow.base.text import printable, several
from tmflow.cli import quarantine
from tmflow.cli.bundle import AllowedSigners, JsonOption

IdentityArgument = Annotated[str, typer.Argument(help="The identity of the bundle, or its first 8 digits or more.")]


def import_bundles(
    files: Annotated[list[Path], typer.Argument(help="Bundles; what is stored of them already is left as it is.")],
    allowed_signers: AllowedSigners = None,
    as_json: JsonOption = False,
) -> None:
    """Check bundles and store their runs in the database; of each all or nothing.

    The database is results/study.db, or the SQLAlchemy URL in TMFLOW_DB_URL.
    """
    from tmflow.contributions import importer
    from tmflow.store import engine
    from tmflow.store.ingest import Conflict

    url = engine.url_from_env(results_dir() / "study.db")
    reports = []
    for file in files:
        try:
            reports.append(report := importer.import_bundle(url, file, allowed_signers=allowed_signers))
        except Conflict as error:
            raise quarantine.kept(file, error) from error
        if not as_json:
            hidden = f" It is withdrawn, so they are hidden: {report.withdrawn}." if report.withdrawn else ""
            told = f"{several(report.runs_new, 'run')} stored, {report.runs_known} known already"
            typer.echo(printable(f"{file}: {told}; identity {report.identity}.{hidden}"))
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports], indent=1))


def withdraw(
    identity: IdentityArgument,
    reason: Annotated[str, typer.Option(help="Why, in a few words; whoever asks for one of its runs is told.")],
) -> None:
    """Hide the runs of a contribution everywhere; nothing is deleted."""
    from tmflow.contributions import importer
    from tmflow.store import engine

    url = engine.url_from_env(results_dir() / "study.db")
    whole = importer.whole_identity(url, identity)
    with quarantine.noted("withdraw", whole, reason):
        n_runs = importer.withdraw(url, whole, reason)
    typer.echo(f"{several(n_runs, 'run')} hidden; `tmflow bundle restore {whole[:12]}` shows them again.")


def restore(identity: IdentityArgument) -> None:
    """Show the runs of a withdrawn contribution again."""
    from tmflow.contributions import importer
    from tmflow.store import engine

    url = engine.url_from_env(results_dir() / "study.db")
    whole = importer.whole_identity(url, identity)
    with quarantine.noted("restore", whole):
        n_runs = importer.restore(url, whole)
    typer.echo(f"{several(n_runs, 'run')} shown again.")


def list_contributions(as_json: JsonOption = False) -> None:
    """The contributions that the database holds, in the order of their import."""
    from tmflow.contributions import importer
    from tmflow.store import engine

    found = importer.contributions(engine.open_reader(engine.url_from_env(results_dir() / "study.db")))
    if as_json:
        typer.echo(found.to_json(orient="records", indent=1))
        return
    for _, row in found.iterrows():
        state = f"withdrawn: {row['withdrawn_reason']}" if isinstance(row["withdrawn_reason"], str) else "shown"
        told = (
            f"{row['identity'][:12]}  {row['imported_at_utc'][:16]}  {row['name']}: {row['n_stored']} of "
            f"{several(row['n_runs'], 'run')} stored by it; {row['platforms'] or 'no platform'}; {state}."
        )
        typer.echo(printable(told))  # whoever brought it named it
    if found.empty:
        typer.echo("No contribution is stored.")
