"""The page "Compare": two selections of runs in the URL, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import pandas as pd
import streamlit as st
from sqlalchemy import URL, Engine

from tmflow.analysis.comparability import Difference, Things, differences, forbids
from tmflow.analysis.pairwise import (
    MEASURES,
    WITHIN,
    Measure,
    Sides,
    compared,
    joint_sentence,
    pairing_sentence,
    parts,
    sentence,
)
from tmflow.analysis.run_table import VARIANT
from tmflow.analysis.variants import ordered_variants
from tmflow.base.escaping import markdown
from tmflow.base.text import several
from tmflow.charts.figures import Figure, slug
from tmflow.charts.pairwise import caption, chart
from tmflow.portal.figure_view import KEPT, show_chart, table_height
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import DATA, Chosen, Filter, Key, choose, go_to, url_parameters
from tmflow.spec.strategies import PARAMETERS, parameters_of
from tmflow.store import engine, platform_queries, queries
from tmflow.store.queries import Only

FIRST = {Key.A: ("lock", "tf_lock"), Key.B: ("nolock", "tf_nolock")}
ORIGIN = (
    Filter(Key.DEFINITION, "Definition", of_factor=True),
    Filter(Key.SOFTWARE, "Software", of_factor=True),
)
STRATEGY = Filter(Key.STRATEGY, "Strategy")
OF_VARIANT = tuple(Filter(name, name.replace("_", " ").capitalize(), of_factor=True) for name in PARAMETERS)
DIGITS = 8  # digits of a hash in a link
ICONS = {"blocks": "⛔ blocks", "caution": "⚠️ caution", "meant": "intended", "harmless": "harmless"}


def sides_or_stop(study: Study) -> Sides:
    """The two sides that the URL selects: filtered runs, or single runs by uid."""
    query = url_parameters()
    uids = [query[key][0] for key in (Key.A, Key.B) if key in query]
    if uids:
        return _single_runs(study, uids)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("A")
        first = {**study.first, Key.EXPERIMENT: ("fig-4.10",), Key.STRATEGY: FIRST[Key.A]}
        a, chosen = _side(study, Key.A, first)
    with right:
        st.subheader("B")
        b, other = _side(study, Key.B, chosen)
    st.button("Swap A and B", icon=":material/swap_horiz:", on_click=_write, args=(other, chosen))
    return Sides(a, b)


def show_comparison(study: Study, sides: Sides) -> None:
    """Show whether the sides are comparable, how B compares with A, and their differences."""
    differing = differences(sides, _origin_facts(study, sides))
    chosen = choose([Filter(Key.METRIC, "Measure", tuple(MEASURES))], sides.a, MEASURES_SHOWN)
    measure: Measure = "speed" if chosen.one(Key.METRIC) == "speed" else "accuracy"
    obstacles = forbids(differing, measure)
    if obstacles:
        st.info("**Not comparable.** " + " ".join(map(markdown, obstacles)), icon=":material/block:")
    elif _same(sides):
        st.info("A and B are the same runs: choose another strategy, platform or experiment for one of them.")
    else:
        _comparison(study, sides, measure)
    _show_differences(differing)


MEASURES_SHOWN = {"speed": "Speed (ratio)", "accuracy": "Accuracy (difference)"}


def _comparison(study: Study, sides: Sides, measure: Measure) -> None:
    """Show one part of the comparison in full; if there are several, a table summarises all of them first."""
    st.markdown(markdown(pairing_sentence(sides)))
    key = (study.database, *(tuple(side["uid"]) for side in sides))
    parts_by_label = _parts(sides, measure, key)
    label = next(iter(parts_by_label))
    if len(parts_by_label) > 1:
        _overview(parts_by_label)
        label = choose([Filter(Key.PART, "Part", tuple(parts_by_label))], sides.a).one(Key.PART)
    part = parts_by_label[label]
    point = _headline(part)
    if pd.isna(point["estimate"]):
        reasons = "; ".join(sorted(set(part["reason"].dropna())))
        st.info(f"There is nothing to compare: {markdown(reasons)}.")
        return
    st.markdown(f"**With {several(int(point['threads']), 'worker')} {markdown(sentence(point))}**")
    if part["low"].isna().all():
        st.markdown(
            "A side with one round shows no spread: there is **no interval**, and the difference may be chance."
        )
    else:
        st.markdown(markdown(joint_sentence(part)))
    figure = _figure(sides, part, study.revision, label, measure, key).at(study.revision)
    show_chart(slug("compare", measure, *reversed(sides.names), label), figure)
    _table(part)


@st.cache_data(show_spinner="Comparing", max_entries=32)
def _parts(_sides: Sides, measure: Measure, key: tuple[object, ...]) -> dict[str, pd.DataFrame]:
    """The parts of the comparison, cached by `key`: the database and the runs of the sides."""
    return dict(parts(compared(_sides, measure)))


# Shared by all sessions: no caller modifies a figure. It is valid for every revision with the same runs.
@st.cache_resource(show_spinner=False, max_entries=KEPT)
def _figure(
    _sides: Sides, _part: pd.DataFrame, _revision: str, label: str, measure: Measure, key: tuple[object, ...]
) -> Figure:
    """The figure of the part with this label; `key` as in `_parts`."""
    return Figure(chart(_part), caption(_sides, _part, _revision, label), _part)


def _headline(part: pd.DataFrame) -> pd.Series:
    """The point with the most workers, preferably with an estimate and not oversubscribed."""
    estimated = part[part["estimate"].notna()]
    fits = estimated[~estimated["oversubscribed"].fillna(False)]
    return next(table for table in (fits, estimated, part) if len(table)).iloc[-1]


def _overview(parts_by_label: Mapping[str, pd.DataFrame]) -> None:
    points = [_headline(part) for part in parts_by_label.values()]
    st.dataframe(
        pd.DataFrame({"part": list(parts_by_label), "workers": [point["threads"] for point in points],
                      "what it says": [sentence(point) for point in points]}),
        hide_index=True,
        height=table_height(parts_by_label),
        column_config={"part": st.column_config.TextColumn(width="medium"),
                       "what it says": st.column_config.TextColumn(width="large")},
        alt="Table of the results of each part of the comparison",
    )  # fmt: skip


def _table(part: pd.DataFrame) -> None:
    speed = part["measure"].iloc[0] == "speed"
    number = st.column_config.NumberColumn
    form = "%.3f" if speed else "%+.4f"
    st.dataframe(
        part.assign(reason=part["reason"].fillna("")),
        hide_index=True,
        height=table_height(part),
        column_order=[
            "threads", "estimate", "low", "high", *(["same"] if speed else []), "joint_low", "joint_high", "rounds_a",
            "rounds_b", "disturbed_rounds", "oversubscribed", *(["reason"] if part["reason"].notna().any() else []),
        ],
        column_config={
            "estimate": number("B over A" if speed else "B minus A (fraction)", format=form),
            "low": number("95 % low", format=form),
            "high": number("95 % high", format=form),
            "same": st.column_config.TextColumn(f"equivalent within {WITHIN}"),
            "joint_low": number("joint low", format=form, help="All joint intervals hold together with 95 %."),
            "joint_high": number("joint high", format=form),
            "rounds_a": number("rounds of A", format="%d"),
            "rounds_b": number("rounds of B", format="%d"),
            "disturbed_rounds": number("disturbed", help="Runs during which other processes used the machine."),
            "oversubscribed": st.column_config.CheckboxColumn(help="More workers than hardware threads."),
            "reason": st.column_config.TextColumn("what is missing", width="large"),
        },
        alt="Table of the comparison of B with A, by number of workers",
    )  # fmt: skip


def _show_differences(facts: Sequence[Difference]) -> None:
    st.header("Other differences")
    if not facts:
        st.success("Nothing except what is compared.")
        return
    st.caption(
        "Facts that differ between the two sides or are unknown on a side; unknown facts count as different. Facts "
        "that block a comparison come first, then those that may contribute to the difference."
    )
    table = pd.DataFrame(facts)
    st.dataframe(
        table.assign(judgement=table["judgement"].map(ICONS)),
        hide_index=True,
        height=table_height(table),
        column_order=["judgement", "what", "fact", "a", "b", "why"],
        column_config={
            "what": "of",
            "a": st.column_config.TextColumn("A", width="medium"),
            "b": st.column_config.TextColumn("B", width="medium"),
            "why": st.column_config.TextColumn("consequence", width="large"),
        },
        alt="Table of the differences between A and B",
    )


def _side(study: Study, key: Key, defaults: Mapping[str, Sequence[str]]) -> tuple[pd.DataFrame, Chosen]:
    """The runs of one side, and the choices, which are the defaults of the other side."""
    prefix = f"{key}."
    data = choose(DATA, study.counts, study.platform_names, prefix, defaults)
    of = {name: data.one(name) for name in ("experiment", "scale", "platform", "evidence")}
    runs = _runs(study.url, study.state(**of), study.joined, **of)
    origin = choose(ORIGIN, runs, _names(study, runs), prefix, {**_origins(runs), **defaults})
    strategies = ordered_variants(origin.rows["strategy"])
    same_platform = defaults.get(Key.PLATFORM, ()) == data.chosen[Key.PLATFORM]
    if key == Key.B and same_platform and defaults[Key.EXPERIMENT] == data.chosen[Key.EXPERIMENT]:
        others = [name for name in strategies if name not in defaults[Key.STRATEGY]]
        first = [name for name in FIRST[Key.B] if name in others] + others
        defaults = {**defaults, Key.STRATEGY: first}
    strategy = choose([STRATEGY], origin.rows, None, prefix, defaults)
    usual = {name: [str(value)] for name, value in parameters_of(strategy.one(Key.STRATEGY)).items()}
    variant = choose(OF_VARIANT, strategy.rows, None, prefix, {**usual, **defaults})
    chosen = {**data.chosen, **origin.chosen, **strategy.chosen, **variant.chosen}
    return _limit_to_variant(variant.rows, key), chosen


def _limit_to_variant(rows: pd.DataFrame, key: Key) -> pd.DataFrame:
    """Keep the variant with the most runs: runs older than a parameter lack it and form a variant."""
    kinds = [group for _, group in rows.groupby([*VARIANT], dropna=False, sort=False)]
    most = max(kinds, key=len)
    if len(kinds) > 1:
        st.caption(f"{several(len(rows) - len(most), 'run')} of {key.upper()} with other parameters are left out.")
    return most


def _origins(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Defaults: the definitions, newest first, and the software versions, most runs first."""
    newest = runs.groupby(Key.DEFINITION)["started_at_utc"].max().sort_values(ascending=False)
    most = runs.groupby(Key.SOFTWARE)["uid"].count().sort_values(ascending=False, kind="stable")
    return {Key.DEFINITION: list(newest.index), Key.SOFTWARE: list(most.index)}


def _names(study: Study, runs: pd.DataFrame) -> dict[str, str]:
    """Labels for the definitions and software versions of runs."""
    days = runs.groupby(Key.DEFINITION)["started_at_utc"].max().str[:10]
    names = {str(definition): f"{definition}, {day}" for definition, day in days.items()}
    hashes = runs["software_sha256"].unique()
    if len(hashes) > 1:
        for sha256, facts in platform_queries.software_facts(study.reader(), hashes).items():
            commit = f" at {facts['git_commit'][:DIGITS]}" if facts["git_commit"] else ""
            names[sha256[:DIGITS]] = f"{facts['tmflow']}{commit}"
    return names


def _single_runs(study: Study, uids: Sequence[str]) -> Sides:
    """Two single runs by uid; show an error and stop the page if the link does not name two existing runs."""
    if len(uids) < 2:
        st.error("The link names one run: to compare two, give both, as `?a=<uid>&b=<uid>`.")
        st.stop()
    runs = _with_origins(study.reader(), uids=uids)
    rows = [runs[runs["uid"] == uid] for uid in uids]
    for uid, row in zip(uids, rows, strict=True):
        if row.empty:
            st.error(f"The link asks for run '{markdown(uid[:60])}', which is not in this database.")
            st.stop()
    for key, row in zip((Key.A, Key.B), rows, strict=True):
        run = row.iloc[0]
        description = (
            f"{run['strategy']}, {several(int(run['threads']), 'worker')}, {run['experiment']}, round {run['round']}"
        )
        st.page_link(
            "views/runs.py", label=f"{key.upper()}: {markdown(description)}", query_params={str(Key.RUN): run["uid"]},
            icon=":material/table_rows:",
        )  # fmt: skip
    return Sides(*rows)


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Reading the runs", max_entries=16)
def _runs(
    _url: URL, state: Identity, joined: bool, experiment: str, scale: str, platform: str, evidence: str
) -> pd.DataFrame:
    """Runs of all definitions and any status, with their settings and software."""
    reader = engine.open_reader(_url)
    of: Only = {"experiment": experiment, "scale": scale, "platforms": [platform], "evidences": [evidence]}
    of["joined"] = joined
    return _with_origins(reader, **of)


def _with_origins(source: Engine, **only: Unpack[Only]) -> pd.DataFrame:
    only |= {"status": None, "all_definitions": True}
    runs = queries.runs(source, **only).merge(queries.origins(source, **only), on="uid", validate="one_to_one")
    return runs.assign(
        **{Key.DEFINITION: runs["definition_sha256"].str[:DIGITS], Key.SOFTWARE: runs["software_sha256"].str[:DIGITS]}
    )


def _origin_facts(study: Study, sides: Sides) -> Things:
    both, reader = pd.concat(sides), study.reader()
    return Things(
        platform_queries.platform_facts(reader, both["platform"].unique()),
        platform_queries.environment_facts(reader, both["env_sha256"].dropna().unique()),
        platform_queries.software_facts(reader, both["software_sha256"].unique()),
    )


def _same(sides: Sides) -> bool:
    return set(sides.a["uid"]) == set(sides.b["uid"])


def _write(a: Chosen, b: Chosen) -> None:
    """Write the choices of both sides to the URL."""
    view = {f"{side}.{key}": values for side, chosen in ((Key.A, a), (Key.B, b)) for key, values in chosen.items()}
    go_to(view, [key for key in url_parameters() if key.startswith((f"{Key.A}.", f"{Key.B}."))])
