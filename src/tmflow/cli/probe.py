"""`tmflow probe`: what this machine's transactions and memory really do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.errors import BadInput
from tmflow.cli.options import require_writable


def probe(
    seconds: Annotated[float, typer.Option(help="That it may take, about; 5 to 600.")] = 60,
    emulate: Annotated[
        str | None, typer.Option(help="A profile: probe its emulated transactions instead. Nothing is timed.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="The file to keep it in; results/probe.json if not given, none of --emulate.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Also make a profile of that name: data/platforms/<name>.yaml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document as JSON, for programs.")] = False,
) -> None:
    """Find out by trying what the transactions of this machine can do and cost, and what moving memory costs.

    Leave the machine alone meanwhile. What every number means: docs/probe.md.
    """
    from tmflow.base.locks import machine_to_itself
    from tmflow.base.paths import results_dir
    from tmflow.platform.profiles import load_profile
    from tmflow.probe import document, run
    from tmflow.probe.profile import profile_of, require_new_name, write_profile
    from tmflow.probe.text import table

    if profile is not None and emulate is not None:
        raise BadInput("--profile makes a profile of this machine, so --emulate cannot be given with it.")
    if profile is not None:
        require_new_name(profile)
    file = save or (None if emulate else results_dir() / "probe.json")
    if file is not None:
        require_writable(file)
    if emulate:
        found = run.probe(seconds, load_profile(emulate))
    else:
        with machine_to_itself():
            found = run.probe(seconds)
    if file is not None:
        document.write(file, found)
    typer.echo(json.dumps(found.as_dict(), indent=1) if as_json else table(found))
    if file is not None:
        typer.echo(f"kept in {file}", err=True)
    if profile is not None:
        typer.echo(f"profile written to {write_profile(profile_of(found, profile))}", err=True)
