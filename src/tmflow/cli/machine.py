"""`tmflow doctor` and `tmflow probe`: what is installed on this machine, and what its transactions and memory cost."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tmflow.base.errors import BadInput
from tmflow.cli.options import JsonOption, print_result, require_writable


def doctor(as_json: JsonOption = False) -> None:
    """Check this machine: what is installed, which strategies run here, and how to get what is missing.

    Exit code 1 if something is missing that stops a study; a strategy that cannot run here stops none.
    """
    from tmflow.workflow.doctor import diagnose, exit_code, lines

    checks = diagnose()
    print_result(as_json, [asdict(check) for check in checks], lines(checks))
    raise typer.Exit(exit_code(checks))


def probe(
    seconds: Annotated[float, typer.Option(help="Approximate duration; 5 to 600.")] = 60,
    emulate: Annotated[
        str | None, typer.Option(help="A profile: probe its emulated transactions instead. Nothing is timed.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="The output file; default results/probe.json, none with --emulate.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Also write a profile of this name: data/platforms/<name>.yaml.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the limits and costs of this machine's transactions, and the cost of moving memory.

    Leave the machine idle meanwhile. docs/probe.md explains every number.
    """
    from tmflow.base.locks import machine_to_itself
    from tmflow.base.paths import results_dir
    from tmflow.platform.profiles import load_profile
    from tmflow.probe import document
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
        result = document.probe(seconds, load_profile(emulate))
    else:
        with machine_to_itself():
            result = document.probe(seconds)
    if file is not None:
        document.write(file, result)
    typer.echo(json.dumps(result.as_dict(), indent=1) if as_json else table(result))
    if file is not None:
        typer.echo(f"saved in {file}", err=True)
    if profile is not None:
        typer.echo(f"profile written to {write_profile(profile_of(result, profile))}", err=True)
