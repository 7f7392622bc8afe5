"""`tmflow bundle stage|waiting|accept|reject|compare|audit`: contributed bundles until a maintainer decides."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tmflow.base.errors import BadInput
from tmflow.base.paths import results_dir
from tmflow.base.text import several
from tmflow.cli.bundle import JsonOption

if TYPE_CHECKING:
    from tmflow.contributions.quarantine import Action, Quarantine

app = typer.Typer()  # its commands are among those of `tmflow bundle`
SHOWN = 20  # runs that `compare` shows unless one is named
Identity = Annotated[str, typer.Argument(help="The identity of the bundle, or its first 8 digits or more.")]
By = Annotated[str | None, typer.Option(help="Who does it; default: the current user.")]


@app.command()
def stage(
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="A bundle; `-` reads it from the standard input.")],
    name: Annotated[str | None, typer.Option(help="The name of the bundle; default: the name of the file.")] = None,
    by: By = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a bundle and store it in the quarantine, where it waits for `accept` or `reject`."""
    from tmflow.contributions import staging

    staged = staging.stage(_quarantine(), file, name or Path(file.name).name, by or _user())
    if as_json:
        typer.echo(json.dumps({"outcome": staged.outcome, "said": staged.message, "report": staged.report.as_json()}))
    else:
        for problem in staged.report.problems:
            _echo(f"{problem.severity}: {problem.sentence}")
        _echo(f"{staged.report.identity or 'no bundle'}: {staged.message}")
    if staged.outcome == "refused":
        raise typer.Exit(2)


@app.command()
def waiting(as_json: JsonOption = False) -> None:
    """List the bundles that wait for a decision, the oldest first."""
    from tmflow.contributions.quarantine import waiting as listed

    uploads = listed(_quarantine())
    if as_json:
        typer.echo(json.dumps([asdict(upload) for upload in uploads], indent=1))
    for upload in uploads if not as_json else ():
        _echo(f"{upload.identity}: {upload.sentence}")
    if not uploads and not as_json:
        typer.echo("nothing waits.")


@app.command()
def accept(identity: Identity, by: By = None) -> None:
    """Store a waiting bundle in the database, completely or not at all."""
    from tmflow.contributions import review
    from tmflow.store import engine

    url = engine.url_from_env(results_dir() / "study.db")
    report = review.accept(_quarantine(), url, identity, by or _user())
    hidden = f" It is withdrawn, so they are hidden: {report.withdrawn}." if report.withdrawn else ""
    _echo(
        f"{report.identity} is accepted: {several(report.runs_new, 'run')} stored, {report.runs_known} known.{hidden}"
    )


@app.command()
def reject(
    identity: Identity,
    reason: Annotated[str, typer.Option(help="The reason, for later reference.")],
    by: By = None,
) -> None:
    """Reject a waiting bundle: its file is removed, and it is not accepted again."""
    from tmflow.contributions import review

    typer.echo(f"{review.reject(_quarantine(), identity, reason, by or _user())} was rejected.")


@app.command()
def compare(
    identity: Identity,
    run: Annotated[str | None, typer.Option(help="The uid of a run; default: the first runs that differ.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the runs whose content differs from the database: both versions of each differing field."""
    from tmflow.contributions import review
    from tmflow.contributions.review import differences
    from tmflow.store import engine

    quarantine = _quarantine()
    full_identity = review.require_open(quarantine, identity)["identity"]
    database = engine.open_reader(engine.url_from_env(results_dir() / "study.db"))
    differing = list(islice(differences(database, quarantine.file(full_identity), run), SHOWN))
    if as_json:
        report = [{**one._asdict(), "fields": [field._asdict() for field in one.fields]} for one in differing]
        typer.echo(json.dumps(report))
        return
    for one in differing:
        _echo(f"run {one.uid}" + (f", withdrawn from the database with {one.withdrawn}" if one.withdrawn else ""))
        for field in one.fields:
            _echo(f"{field.field}: bundle {field.bundle}, database {field.database}")
    if not differing:
        typer.echo("no run of this bundle differs from the database.")


@app.command()
def audit(
    last: Annotated[int, typer.Option(min=1, help="The number of newest entries.")] = 100, as_json: JsonOption = False
) -> None:
    """List the actions in the quarantine, the newest last."""
    from tmflow.contributions.quarantine import audit as listed

    rows = listed(_quarantine(), last)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    for row in rows if not as_json else ():
        _echo("  ".join(str(value) for value in row.values() if value is not None))


def keep_conflicting(file: Path, conflict: BadInput) -> BadInput:
    """Move a bundle that contradicts the database to the quarantine; return the error to raise."""
    from tmflow.contributions import staging

    identity = staging.keep_conflict(_quarantine(), file, _user(), str(conflict))
    return BadInput(
        f"{conflict} Nothing is stored; the bundle is in the quarantine, where `tmflow bundle compare {identity[:12]}` "
        "shows both versions."
    )


@contextmanager
def audited_action(action: Action, identity: str, reason: str | None = None) -> Iterator[None]:
    """Record an action on a contribution in the audit; the action does not start if the audit cannot be written."""
    quarantine = _quarantine()
    with quarantine.begin() as connection:
        yield
        quarantine.note(connection, action, "done", _user(), identity, reason)


def _quarantine() -> Quarantine:
    from tmflow.contributions.quarantine import Quarantine, folder

    return Quarantine(folder())


def _user() -> str:
    return f"user {getpass.getuser()}"


def _echo(words: str) -> None:
    """Print a line with untrusted text."""
    from tmflow.base import escaping

    typer.echo(escaping.line(words))
