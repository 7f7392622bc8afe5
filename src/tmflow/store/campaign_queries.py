"""Queries about campaigns: which there are, their software, and the runs that trends track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from sqlalchemy import func, select

from tmflow.analysis.regressions import Compared, first_places, pairs
from tmflow.analysis.trends import Measure, values, with_campaigns
from tmflow.base.errors import LONGEST, BadInput, unknown
from tmflow.store import queries
from tmflow.store.frames import Source, connected, fetch, frame, from_tally, platform_columns, total
from tmflow.store.models import Campaign, Experiment, Round, RoundTally, Software
from tmflow.store.platform_queries import platforms, software_facts
from tmflow.store.run_filter import SOFTWARE_NAME, RunFilter

TRACKED = RunFilter(scales=("full",), evidences=("measured",))
"""The runs that trends track, of any definition, status and software version."""


def campaigns(source: Source, *, joined: bool = False) -> pd.DataFrame:
    """Count the runs of each campaign: one row for each experiment definition, platform and kind of evidence.

    campaign_uid, created_at_utc (of the campaign), experiment, scale, definition_sha256, platform, evidence, n_runs.
    joined: treat all sources of a platform as one.
    """
    platform, _ = platform_columns(joined=joined)
    keys = [
        Campaign.uid.label("campaign_uid"),
        Campaign.created_at_utc,
        Experiment.name.label("experiment"),
        Experiment.scale,
        Experiment.definition_sha256,
        platform,
        RoundTally.evidence,
    ]
    statement = from_tally(*keys, total(RoundTally.n_runs).label("n_runs"))
    grouped = statement.join(Campaign, Round.campaign_id == Campaign.id).group_by(*keys)
    return frame(source, grouped.order_by(Campaign.created_at_utc, *keys)).astype({"n_runs": "int64"})


def software_names(source: Source) -> list[str]:
    """The names of the software versions (`SOFTWARE_NAME`), the one that was stored last first."""
    statement = select(SOFTWARE_NAME).group_by(SOFTWARE_NAME).order_by(func.max(Software.id).desc())
    return [name for (name,) in fetch(source, statement)]


def tracked_runs(source: Source, only: RunFilter = TRACKED) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs that trends track (`trends.with_campaigns`), and their full measures (`queries.full_measures`)."""
    with connected(source) as connection:
        runs = queries.runs(connection, replace(only, versions="all"))
        software = runs[["uid"]].merge(queries.origins(connection, only)[["uid", "software_sha256"]], on="uid")
        facts = software_facts(connection, software["software_sha256"].unique())
        full = queries.full_measures(connection, only)
    commits = {sha256: of["git_commit"] for sha256, of in facts.items()}
    commit = software.set_index("uid")["software_sha256"].map(commits).astype("str")
    return with_campaigns(runs.assign(git_commit=runs["uid"].map(commit))), full


def compared_since(
    source: Source, since: str, measures: Sequence[Measure], platform: str | None = None
) -> list[Compared]:
    """The points that were measured before and since (`regressions.first_places`), each with its two campaigns.

    platform: only this one, given by its key (`tmflow.platform.facts`). Raises BadInput if the platform has no run, and
    if there is nothing to compare.
    """
    only = TRACKED
    if platform is not None:
        keys = list(platforms(source)["platform"])
        if platform not in keys:
            raise unknown("platform", platform, keys)
        only = replace(TRACKED, platforms=(platform,))
    runs, full = tracked_runs(source, only)
    tables = {measure: values(runs, full, measure) for measure in measures}
    compared = pairs(tables, first_places(runs, since))
    if not compared:
        raise BadInput(
            f"nothing to compare with --since {since[:LONGEST]}: no point has measured results at full scale, of one "
            "definition of its experiment, both in a campaign before and in one after."
        )
    return compared
