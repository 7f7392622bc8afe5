"""`tmflow regressions`: what became slower, less accurate or lost more updates, for people and for CI."""

from __future__ import annotations

from typing import Annotated

import typer

from tmflow.cli.options import JsonOption, database, print_result


def regressions(
    since: Annotated[
        str,
        typer.Option(
            metavar="DATE|COMMIT|CAMPAIGN",
            help="Compare what was measured from this date on, or after this commit or campaign, with what was before.",
        ),
    ],
    platform: Annotated[str | None, typer.Option(metavar="NAME", help="Use only the runs of this platform.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE",
            help="Compare speed_ratio, accuracy, lost or step_time; repeat the option for several. Default: the first "
            "three, which do not depend on how fast the machine was on a day.",
        ),
    ] = None,
    db: Annotated[
        str | None, typer.Option(metavar="URL", help="The database; by default that of TMFLOW_DB_URL.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the points that became slower, less accurate or lost more updates since a date, a commit or a campaign.

    Exit code 0 if there are none, 1 if there are, 2 if the input is wrong or there is nothing to compare.
    """
    from tmflow.analysis.regressions import document, measures_of, sentences, worse
    from tmflow.store import engine
    from tmflow.store.campaign_queries import compared_since

    url = database() if db is None else engine.parse(db, "--db")
    compared = compared_since(engine.open_reader(url), since, measures_of(measure), platform)
    regressed = worse(compared)
    print_result(as_json, document(since, compared, regressed), sentences(since, compared, regressed))
    if regressed:
        raise typer.Exit(1)
