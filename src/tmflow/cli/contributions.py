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
    files: Annotated[list[Path], typer.Argument(help="Bundles; runs that are stored already stay unchanged.")],
    allowed_signers: AllowedSigners = None,
    as_json: JsonOption = False,
) -> None:
    """Verify bundles and store their runs in the database, each bundle completely or not at all.

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
            raise quarantine.keep_conflicting(file, error) from error
        if not as_json:
            hidden = f" It is withdrawn, so they are hidden: {report.withdrawn}." if report.withdrawn else ""
            summary = f"{several(report.runs_new, 'run')} stored, {report.runs_known} known already"
            typer.echo(printable(f"{file}: {summary}; identity {report.identity}.{hidden}"))
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports], indent=1))


def withdraw(
    identity: IdentityArgument,
    reason: Annotated[str, typer.Option(help="The reason, in a few words; queries for a withdrawn run show it.")],
) -> None:
    """Hide the runs of a contribution everywhere; nothing is deleted."""
    from tmflow.contributions import importer
    from tmflow.store import engine

    url = engine.url_from_env(results_dir() / "study.db")
    full_identity = importer.full_identity(url, identity)
    with quarantine.audited_action("withdraw", full_identity, reason):
        n_runs = importer.withdraw(url, full_identity, reason)
    typer.echo(f"{several(n_runs, 'run')} hidden; `tmflow bundle restore {full_identity[:12]}` shows them again.")


def restore(identity: IdentityArgument) -> None:
    """Show the runs of a withdrawn contribution again."""
    from tmflow.contributions import importer
    from tmflow.store import engine

    url = engine.url_from_env(results_dir() / "study.db")
    full_identity = importer.full_identity(url, identity)
    with quarantine.audited_action("restore", full_identity):
        n_runs = importer.restore(url, full_identity)
    typer.echo(f"{several(n_runs, 'run')} shown again.")


def list_contributions(as_json: JsonOption = False) -> None:
    """List the contributions in the database, in the order of import."""
    from tmflow.contributions import importer
    from tmflow.store import engine

    stored = importer.contributions(engine.open_reader(engine.url_from_env(results_dir() / "study.db")))
    if as_json:
        typer.echo(stored.to_json(orient="records", indent=1))
        return
    for _, row in stored.iterrows():
        state = f"withdrawn: {row['withdrawn_reason']}" if isinstance(row["withdrawn_reason"], str) else "shown"
        line = (
            f"{row['identity'][:12]}  {row['imported_at_utc'][:16]}  {row['name']}: {row['n_stored']} of "
            f"{several(row['n_runs'], 'run')} stored by it; {row['platforms'] or 'no platform'}; {state}."
        )
        typer.echo(printable(line))  # the name is untrusted
    if stored.empty:
        typer.echo("No contribution is stored.")
