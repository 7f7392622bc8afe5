"""The page "Trends": a measure of an experiment over the campaigns of a machine, with change points."""

from __future__ import annotations

from functools import partial
from typing import cast

import pandas as pd
import streamlit as st

from tmflow.analysis import trends
from tmflow.analysis.regressions import range_of
from tmflow.analysis.trends import LEAST_CAMPAIGNS, MEASURES, Change, Measure
from tmflow.analysis.variants import panels
from tmflow.base.text import markdown, workers
from tmflow.charts import trends as chart
from tmflow.charts.figures import Figure, slug
from tmflow.portal.campaign_filter import campaigns_of
from tmflow.portal.figure_view import KEPT, show_figure, show_frame
from tmflow.portal.filter_widgets import choose, url_parameters
from tmflow.portal.links import download, show_commands
from tmflow.portal.study_data import Identity, Study, title_of_experiment
from tmflow.portal.url_state import (
    DEFINITION,
    OF_FACTORS,
    PLATFORM,
    Choice,
    Defaults,
    Key,
    ValueFilter,
    ValuesFilter,
    resolve,
)
from tmflow.store import campaign_queries
from tmflow.store.run_filter import RunFilter
from tmflow.study.campaign import rerun

EXPERIMENT = ValueFilter(Key.EXPERIMENT, "Experiment", wide=True)
MEASURE = Choice(Key.METRIC, "Measure", MEASURES, wide=True)
STRATEGY = ValueFilter(Key.STRATEGY, "Strategy")
THREADS = ValuesFilter(Key.THREADS, "Threads", of_factor=True)
DIGITS = 8  # digits of a hash in a link
COLUMNS = ("began_utc", "software", "campaign_uid")
RECORDS = [*trends.OF_CAMPAIGN, "variant", "threads", "estimate", "low", "high", "rounds", "results", "reason"]


def show_trends(study: Study) -> None:
    """Show the filters, and the trend that the URL selects, or why there is none."""
    is_tracked = (study.counts["scale"] == "full") & (study.counts["evidence"] == "measured")
    counts = study.counts[is_tracked]
    if counts.empty:
        st.info("No run was measured at full scale, and no other run is tracked. To measure the study:")
        show_commands("make study")
        return
    experiment, platform, measure = _choose_data(study, counts)
    state = study.state(experiment=experiment, scale="full", platform=platform, evidence="measured")
    table = _series(study, state, experiment, platform, measure)
    if table.empty or table["estimate"].isna().all():
        title = markdown(title_of_experiment(experiment))
        st.info(f"No run of “{title}” has this measure: choose another measure or experiment.")
        return
    newest = table.groupby(Key.DEFINITION)["last_run_utc"].max().sort_values(ascending=False)
    names = {str(name): f"{name}, {str(date)[:10]}" for name, date in newest.items()}
    first: Defaults = {Key.DEFINITION: list(names), Key.STRATEGY: ("nolock", "tf_nolock")}
    rows = choose([DEFINITION, STRATEGY, THREADS], table[table["estimate"].notna()], names, defaults=first).rows
    if resolve(OF_FACTORS, rows, url_parameters()).chosen:
        rows = choose(OF_FACTORS, rows, behind="Filters").rows
    by_label = dict(panels(rows, ("threads",)))
    label = next(iter(by_label))
    if len(by_label) > 1:
        label = choose([Choice(Key.PART, "Part", tuple(by_label), wide=True)], rows).one(Key.PART)
    panel = by_label[label]
    changes = [change for point in trends.points(panel) for change in trends.change_points(point)]
    _show_state(panel, experiment, _newest(study, state, experiment, platform, measure, panel))
    figure = _figure(panel, study.revision, label, title_of_experiment(experiment)).at(study.revision)
    name = slug("trend", str(measure), experiment, label)
    show_figure(name, figure, COLUMNS)
    download("Series with change points (JSON)", partial(_json, panel), f"{name}-changes.json")
    if changes:
        st.header("Change points")
        _show_changes(changes)


def _choose_data(study: Study, counts: pd.DataFrame) -> tuple[str, str, Measure]:
    """The experiment, platform and measure; by default the experiment with the most campaigns on the platform."""
    campaigns = campaigns_of(study)
    campaigns = campaigns[(campaigns["scale"] == "full") & (campaigns["evidence"] == "measured")]
    of_platform = campaigns.groupby("platform")["campaign_uid"].nunique().sort_values(ascending=False, kind="stable")
    first: Defaults = {Key.PLATFORM: [*study.first.get(Key.PLATFORM, ()), *of_platform.index]}
    platform = resolve([PLATFORM], counts, url_parameters(), first).one(Key.PLATFORM)
    here = campaigns[campaigns["platform"] == platform].groupby("experiment")["campaign_uid"].nunique()
    defaults: Defaults = {
        **first,
        Key.EXPERIMENT: list(here[here > 1].sort_values(ascending=False, kind="stable").index),
    }
    names = {**study.labels, **chart.TITLES}
    data = choose([PLATFORM, EXPERIMENT, MEASURE], counts, names, defaults=defaults)
    return data.one(Key.EXPERIMENT), data.one(Key.PLATFORM), cast(Measure, data.one(Key.METRIC))


def _show_state(panel: pd.DataFrame, experiment: str, changes: list[Change]) -> None:
    """Say how many campaigns there are; if they are too few for a detector, compare the newest two."""
    n, title = panel["place"].nunique(), markdown(title_of_experiment(experiment))
    if n == 1:
        st.info(
            f"“{title}” has one campaign here, so there is no trend yet. This measures another one, on that machine:"
        )
        show_commands(f"{rerun(experiment)} --fresh")
        return
    if n < LEAST_CAMPAIGNS:
        st.info(
            f"“{title}” has {n} campaigns here. Change points are looked for from {LEAST_CAMPAIGNS} on. "
            "With fewer, the newest two are compared. They share no round, so the intervals are not paired."
        )
        for change in changes:
            st.markdown(markdown(chart.sentence(change)))


def _show_changes(changes: list[Change]) -> None:
    table = pd.DataFrame(
        {
            "workers": [workers(int(change.after["threads"])) for change in changes],
            "change": [change.size.estimate for change in changes],
            "verdict": [chart.judgement(change) for change in changes],
            "between": [range_of(change.before, change.after) for change in changes],
            "software before": [change.before["software"] for change in changes],
            "software after": [change.after["software"] for change in changes],
        }
    )
    form = "%.3f" if changes[0].after["measure"] in trends.RATIOS else "%+.4f"
    kind = "after over before" if changes[0].after["measure"] in trends.RATIOS else "after minus before"
    columns = {
        "change": st.column_config.NumberColumn(kind, format=form),
        "between": st.column_config.TextColumn(width="large"),
    }
    show_frame(table, f"Table of {len(changes)} change points", column_config=columns)
    st.caption(
        "The sizes compare the levels on both sides. About one of 20 series without a change has a change point by "
        "chance. `git log BEFORE..AFTER` lists the commits."
    )


def _json(panel: pd.DataFrame) -> str:
    return str(panel[RECORDS].to_json(orient="records", indent=1)) + "\n"


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Reading the runs", max_entries=16)
def _tracked(_study: Study, state: Identity, experiment: str, platform: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    only = RunFilter(
        experiments=[experiment], scales=["full"], platforms=[platform], evidences=["measured"], joined=_study.joined
    )
    return campaign_queries.tracked_runs(_study.reader(), only)


@st.cache_resource(show_spinner="Summarising the runs", max_entries=16)
def _series(_study: Study, state: Identity, experiment: str, platform: str, measure: Measure) -> pd.DataFrame:
    table = trends.series(*_tracked(_study, state, experiment, platform), measure)
    return table.assign(**{Key.DEFINITION: table["definition_sha256"].str[:DIGITS]}) if len(table) else table


@st.cache_resource(show_spinner=False, max_entries=16)
def _values(_study: Study, state: Identity, experiment: str, platform: str, measure: Measure) -> pd.DataFrame:
    return trends.values(*_tracked(_study, state, experiment, platform), measure)


def _newest(
    study: Study, state: Identity, experiment: str, platform: str, measure: Measure, panel: pd.DataFrame
) -> list[Change]:
    """The comparison of the newest two campaigns of each point of a panel."""
    rounds = _values(study, state, experiment, platform, measure)
    changes = (trends.newest_change(point, rounds) for point in trends.points(panel))
    return [change for change in changes if change is not None]


# Shared by all sessions: no caller modifies a figure. It is valid for every revision with the same numbers.
@st.cache_resource(show_spinner=False, max_entries=KEPT)
def _figure(panel: pd.DataFrame, _revision: str, label: str, title: str) -> Figure:
    changes = [change for point in trends.points(panel) for change in trends.change_points(point)]
    return chart.draw(panel, changes, _revision, label, title)
