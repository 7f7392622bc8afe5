"""The filters of runs by campaign, software version and date, which the pages Runs, Explore and Trends share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import date, timedelta

import pandas as pd
import streamlit as st

from tmflow.portal.filter_widgets import choose, go_to, url_parameters, warn_unknown
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import Key, ValuesFilter
from tmflow.store import campaign_queries
from tmflow.store.run_filter import RESULTS, RunFilter

WIDTH = 165  # px of a date, as of a filter of one value
FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2100, 1, 1)  # of the calendar
CAMPAIGN = ValuesFilter(Key.CAMPAIGN, "Campaign", counted=True)
SOFTWARE = ValuesFilter(Key.SOFTWARE, "Software version")
LABEL = "Campaign, software version and date"
DATES = {Key.SINCE: "Started from (UTC)", Key.UNTIL: "Started up to (UTC)"}
KEYS = (Key.CAMPAIGN, Key.SOFTWARE, *DATES)


def campaigns_of(study: Study) -> pd.DataFrame:
    """The campaigns of the study (`campaign_queries.campaigns`); do not modify the table."""
    return _campaigns(study, study.identity, study.joined)


def narrow_results(
    study: Study, experiment: str, scale: str, platforms: Collection[str], evidences: Collection[str]
) -> RunFilter:
    """Show the filters behind an expander; the filter of the results of this experiment with their choices."""
    only = replace(RESULTS, experiments=(experiment,), scales=(scale,), platforms=platforms, evidences=evidences)
    with st.expander(LABEL, expanded=any(key in url_parameters() for key in KEYS)):
        return narrow(study, only)


def narrow(study: Study, only: RunFilter) -> RunFilter:
    """Show the filters of campaigns, software versions and dates, and add their choices to a filter of runs.

    The campaigns are those with runs of the experiments, scales, platforms and kinds of evidence of the filter.
    """
    table = campaigns_of(study)
    wanted = (only.experiments, only.scales, only.platforms, only.evidences)
    for column, values in zip(("experiment", "scale", "platform", "evidence"), wanted, strict=True):
        table = table if values is None else table[table[column].isin(list(values))]
    names = dict(
        zip(table["campaign_uid"], table["created_at_utc"].str[:10] + " " + table["campaign_uid"], strict=True)
    )
    software = pd.DataFrame({Key.SOFTWARE: _software(study, study.identity)}, dtype="str")
    campaigns = choose([CAMPAIGN], table.rename(columns={"campaign_uid": Key.CAMPAIGN}), names).chosen[Key.CAMPAIGN]
    versions = choose([SOFTWARE], software).chosen[Key.SOFTWARE]
    with st.container(horizontal=True):
        since, until = (_choose_day(key, label) for key, label in DATES.items())
    return replace(
        only,
        campaigns=campaigns or None,
        software=versions or None,
        since=since.isoformat() if since else None,
        until=(until + timedelta(days=1)).isoformat() if until else None,
    )


def _choose_day(key: Key, label: str) -> date | None:
    """Show the choice of a day; warn if the day of the URL is none."""
    text = st.query_params.get(key)
    chosen = None
    if text:
        try:
            chosen = min(max(date.fromisoformat(text), FIRST_DAY), LAST_DAY)
        except ValueError:
            warn_unknown("the day", text, "which is no date such as 2026-11-01: showing all days.")

    def write() -> None:
        day = st.session_state[key]
        go_to({key: [day.isoformat()]} if day else {}, [key])

    st.session_state[key] = chosen
    st.date_input(label, width=WIDTH, key=key, on_change=write, min_value=FIRST_DAY, max_value=LAST_DAY)
    return chosen


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner=False, max_entries=4)
def _campaigns(_study: Study, identity: Identity, joined: bool) -> pd.DataFrame:
    return campaign_queries.campaigns(_study.reader(), joined=joined)


@st.cache_resource(show_spinner=False, max_entries=4)
def _software(_study: Study, identity: Identity) -> list[str]:
    return campaign_queries.software_names(_study.reader())
