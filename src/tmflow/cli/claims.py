"""`tmflow claims`: the verdict of the runs on every finding of the study."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tmflow.paths import results_dir
from tmflow.spec import Evidence


def claims(
    evidence: Annotated[Evidence | None, typer.Option(help="By this kind of evidence alone.")] = None,
    platform: Annotated[str | None, typer.Option(help="By the runs of this platform alone: its slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Tell of every claim of data/claims.yaml whether the database's runs reproduce it, or why not."""
    from tmflow.claims.shown import as_text
    from tmflow.claims.verdicts import verdicts
    from tmflow.store import engine

    judged = verdicts(engine.open_reader(engine.url_from_env(results_dir() / "study.db")), evidence, platform)
    typer.echo(json.dumps([verdict.as_json() for verdict in judged], indent=1) if as_json else as_text(judged))
