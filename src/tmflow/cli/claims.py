"""`tmflow claims`: the verdict of the runs on every finding of the study."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tmflow.base.paths import results_dir
from tmflow.spec.trial import Evidence


def claims(
    evidence: Annotated[Evidence | None, typer.Option(help="By this kind of evidence alone.")] = None,
    platform: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="By the runs of this platform, or of this contribution to one (NAME@ID)."),
    ] = None,
    join_sources: Annotated[
        bool, typer.Option("--join-sources", help="Join the platform's runs with all that others contributed to it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Check every claim of data/claims.yaml against the runs of one platform: by default, of this machine."""
    from tmflow.claims.heading import heading, this_machine
    from tmflow.claims.judge import verdicts
    from tmflow.claims.render import as_text
    from tmflow.store import engine

    reader = engine.open_reader(engine.url_from_env(results_dir() / "study.db"))
    key = this_machine(reader) if platform is None else platform
    judged = verdicts(reader, evidence, key, joined=join_sources)
    if as_json:
        typer.echo(json.dumps([verdict.as_json() for verdict in judged], indent=1))
    else:
        typer.echo(as_text(judged, heading(reader, key, joined=join_sources)))
