"""`tmflow doctor`: what is installed, which strategies run here, and how to get the rest."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False) -> None:
    """Check this machine: what is installed, which strategies run here, and how to get what is missing.

    Exit code 1 if something is missing that stops a study; a strategy that cannot run here stops none.
    """
    from tmflow.workflow.doctor import diagnose, exit_code, lines

    findings = diagnose()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    for line in lines(findings) if not as_json else ():
        typer.echo(line)
    raise typer.Exit(exit_code(findings))
