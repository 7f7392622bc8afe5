"""The page "Compare": two to four selections of runs in the URL, and the comparison of each with the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
import streamlit as st
from sqlalchemy import Engine

from tmflow.analysis.comparability import Difference, Things, differences, forbids
from tmflow.analysis.comparison import (
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
from tmflow.analysis.versions import ranked_software
from tmflow.base.text import markdown, several
from tmflow.charts.comparison import caption, chart
from tmflow.charts.figures import Figure, slug
from tmflow.portal.figure_view import KEPT, column_width, show_chart, show_estimates, show_frame
from tmflow.portal.filter_widgets import choose, go_to, url_parameters
from tmflow.portal.links import link
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import (
    DATA,
    DEFINITION,
    Choice,
    Chosen,
    Defaults,
    Key,
    ValueFilter,
    ValuesFilter,
    factor_label,
)
from tmflow.spec.strategies import PARAMETERS, parameters_of
from tmflow.store import platform_queries, queries
from tmflow.store.run_filter import RunFilter

KEYS = (Key.A, Key.B, Key.C, Key.D)
FIRST = {Key.A: ("lock", "tf_lock"), Key.B: ("nolock", "tf_nolock")}
CAMPAIGN = ValuesFilter(Key.CAMPAIGN, "Campaign", of_factor=True)
SOFTWARE = ValueFilter(Key.SOFTWARE, "Software", wide=True, of_factor=True)
STRATEGY = ValueFilter(Key.STRATEGY, "Strategy")
OF_VARIANT = tuple(ValueFilter(name, factor_label(name), of_factor=True) for name in PARAMETERS)
DIGITS = 8  # digits of a hash in a link
MEASURES_SHOWN = {"speed": "Speed (ratio)", "accuracy": "Accuracy (difference)"}
ICONS = {"blocks": "⛔ blocks", "caution": "⚠️ caution", "meant": "intended", "harmless": "harmless"}


def sides_or_stop(study: Study) -> list[Sides]:
    """The sides that the URL selects, each of B to D with A: filtered runs, or single runs by uid."""
    query = url_parameters()
    uids = [query[key][0] for key in KEYS if key in query]
    if uids:
        return _single_runs(study, uids)
    keys = [key for key in KEYS if key in FIRST or any(name.startswith(f"{key}.") for name in query)]
    runs: dict[Key, pd.DataFrame] = {}
    chosen: dict[Key, Chosen] = {}
    for column, key in zip(st.columns(len(keys), gap="large"), keys, strict=True):
        with column:
            st.subheader(key.upper())
            runs[key], chosen[key] = _side(study, key, list(chosen.values()))
            if key not in FIRST:
                label = f"Remove {key.upper()}"
                st.button(label, icon=":material/close:", on_click=_write, args=({}, [key]))
    with st.container(horizontal=True):
        swapped = {Key.A: chosen[Key.B], Key.B: chosen[Key.A]}
        icon = ":material/swap_horiz:"
        st.button("Swap A and B", icon=icon, on_click=_write, args=(swapped, [Key.A, Key.B]))
        for key in [key for key in KEYS if key not in keys][:1]:
            of_a = {name: chosen[Key.A][name] for name in (entry.key for entry in DATA)}
            label = f"Compare another one, {key.upper()}"
            st.button(label, icon=":material/add:", on_click=_write, args=({key: of_a}, [key]))
    return _pairs(runs)


def _pairs(runs: Mapping[Key, pd.DataFrame]) -> list[Sides]:
    """The comparisons of each other side with A."""
    others = [(key, table) for key, table in runs.items() if key != Key.A]
    return [Sides(runs[Key.A], table, key.upper(), len(others)) for key, table in others]


def show_comparisons(study: Study, pairs: Sequence[Sides]) -> None:
    """Show for each other side whether it is comparable with A, how it compares, and the differences."""
    chosen = choose([Choice(Key.METRIC, "Measure", tuple(MEASURES))], pairs[0].a, MEASURES_SHOWN)
    measure: Measure = "speed" if chosen.one(Key.METRIC) == "speed" else "accuracy"
    for sides in pairs:
        if len(pairs) > 1:
            st.header(f"{sides.letter} and A")
        _show_comparison(study, sides, measure)


def _show_comparison(study: Study, sides: Sides, measure: Measure) -> None:
    both, reader = pd.concat(sides), study.reader()
    things = Things(
        platform_queries.platform_facts(reader, both["platform"].unique()),
        platform_queries.environment_facts(reader, both["env_sha256"].dropna().unique()),
        platform_queries.software_facts(reader, both["software_sha256"].unique()),
    )
    differing = differences(sides, things)
    obstacles = forbids(differing, measure, sides.letter)
    if obstacles:
        st.info("**Not comparable.** " + " ".join(map(markdown, obstacles)), icon=":material/block:")
    elif set(sides.a["uid"]) == set(sides.b["uid"]):
        one_of = f"A and {sides.letter} are the same runs"
        st.info(f"{one_of}: choose another strategy, platform or experiment for one of them.")
    else:
        _comparison(study, sides, measure)
    _show_differences(differing, sides.letter)


def _comparison(study: Study, sides: Sides, measure: Measure) -> None:
    """Show one part of the comparison in full; if there are several, a table summarises all of them first."""
    key = (study.database, sides.letter, sides.comparisons, *(tuple(side["uid"]) for side in sides))
    parts_by_label = _parts(sides, measure, key)
    if any(part["estimate"].notna().any() for part in parts_by_label.values()):
        st.markdown(markdown(pairing_sentence(sides)))
    label = next(iter(parts_by_label))
    if len(parts_by_label) > 1:
        points = [_headline(part) for part in parts_by_label.values()]
        table = pd.DataFrame(
            {"part": list(parts_by_label), "workers": [point["threads"] for point in points],
             "what it says": [sentence(point) for point in points]}
        )  # fmt: skip
        widths = {"part": st.column_config.TextColumn(width=column_width(parts_by_label)),
                  "what it says": st.column_config.TextColumn(width="large")}  # fmt: skip
        show_frame(table, "Table of the results of each part of the comparison", column_config=widths)
        prefix = "" if sides.letter == "B" else f"{sides.letter.lower()}."  # every side has its own part
        label = choose([Choice(Key.PART, "Part", tuple(parts_by_label))], sides.a, side=prefix).one(Key.PART)
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
    letter = "" if sides.letter == "B" else sides.letter  # two sides may have the same name
    show_chart(slug("compare", measure, *reversed(sides.names), label, letter), figure)
    _table(part, sides.letter)


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


def _table(part: pd.DataFrame, letter: str) -> None:
    speed = part["measure"].iloc[0] == "speed"
    number = st.column_config.NumberColumn
    form = "%.3f" if speed else "%+.4f"
    order = [
        "threads", "estimate", "low", "high", *(["same"] if speed else []), "joint_low", "joint_high", "rounds_a",
        "rounds_b",
    ]  # fmt: skip
    columns = {
        "estimate": number(f"{letter} over A" if speed else f"{letter} minus A (fraction)", format=form),
        "same": st.column_config.TextColumn(f"equivalent within {WITHIN}"),
        "joint_low": number("joint low", format=form, help="All joint intervals hold together with 95 %."),
        "joint_high": number("joint high", format=form),
        "rounds_a": number("rounds of A", format="%d"),
        "rounds_b": number(f"rounds of {letter}", format="%d"),
    }
    show_estimates(
        part, order, columns, form, f"Table of the comparison of {letter} with A, by number of workers", of="Runs"
    )


def _show_differences(facts: Sequence[Difference], letter: str) -> None:
    st.header("Other differences")
    if not facts:
        st.success("Nothing except what is compared.")
        return
    st.caption(
        "Facts that differ between the two sides or are unknown on a side; unknown facts count as different. Facts "
        "that block a comparison come first, then those that may contribute to the difference."
    )
    table = pd.DataFrame(facts)
    show_frame(
        table.assign(judgement=table["judgement"].map(ICONS)),
        f"Table of the differences between A and {letter}",
        column_order=["judgement", "what", "fact", "a", "b", "why"],
        column_config={
            "what": "of",
            "a": st.column_config.TextColumn("A", width="medium"),
            "b": st.column_config.TextColumn(letter, width="medium"),
            "why": st.column_config.TextColumn("consequence", width="large"),
        },
    )


def _side(study: Study, key: Key, earlier: Sequence[Chosen]) -> tuple[pd.DataFrame, Chosen]:
    """The runs of one side, and its choices; those of A, the first of `earlier`, are the defaults of the others."""
    prefix = f"{key}."
    defaults: Defaults = (
        earlier[0] if earlier else {**study.first, Key.EXPERIMENT: ("fig-4.10",), Key.STRATEGY: FIRST[Key.A]}
    )
    data = choose(DATA, study.counts, study.labels, prefix, defaults)
    of = {name: data.one(name) for name in ("experiment", "scale", "platform", "evidence")}
    runs = _runs(study, study.state(**of), **of)
    dates = _newest_run(runs)
    names = {name: f"{name}, {date[:10]}" for name, date in dates.items()}
    definition = choose([DEFINITION], runs, names, prefix, _first(defaults, Key.DEFINITION, dates))
    began = definition.rows.groupby(Key.CAMPAIGN)["started_at_utc"].min().fillna("")
    days = {str(uid): f"{str(day)[:10]} {uid}" for uid, day in began.items()}
    campaign = choose([CAMPAIGN], definition.rows, days, prefix)
    software = ranked_software(campaign.rows)
    origin = choose([SOFTWARE], campaign.rows, {}, prefix, _first(defaults, Key.SOFTWARE, software))
    strategies = ordered_variants(origin.rows["strategy"])
    same_platform = defaults.get(Key.PLATFORM, ()) == data.chosen[Key.PLATFORM]
    if earlier and same_platform and defaults[Key.EXPERIMENT] == data.chosen[Key.EXPERIMENT]:
        taken = {name for choices in earlier for name in choices[Key.STRATEGY]}
        others = [name for name in strategies if name not in taken]
        first = [name for name in FIRST[Key.B] if name in others] + others
        defaults = {**defaults, Key.STRATEGY: first}
    strategy = choose([STRATEGY], origin.rows, side=prefix, defaults=defaults)
    usual = {name: [str(value)] for name, value in parameters_of(strategy.one(Key.STRATEGY)).items()}
    variant = choose(OF_VARIANT, strategy.rows, side=prefix, defaults={**usual, **defaults})
    # Runs that are older than a parameter lack it and form a variant: the one with the most runs is kept.
    kinds = [group for _, group in variant.rows.groupby([*VARIANT], dropna=False, sort=False)]
    most = max(kinds, key=len)
    if len(kinds) > 1:
        n_left_out = len(variant.rows) - len(most)
        st.caption(f"{several(n_left_out, 'run')} of {key.upper()} with other parameters are left out.")
    return most, {
        **data.chosen,
        **definition.chosen,
        **campaign.chosen,
        **origin.chosen,
        **strategy.chosen,
        **variant.chosen,
    }


def _first(defaults: Defaults, key: Key, values: Iterable[str]) -> dict[str, list[str]]:
    """The defaults of one filter: the choice of the other side if this side has it, then these values in order."""
    return {key: [*defaults.get(key, ()), *values]}


def _newest_run(runs: pd.DataFrame) -> dict[str, str]:
    """When the newest run of each definition began (UTC, "" if unknown), by the definition, the newest first."""
    newest = runs["started_at_utc"].fillna("").groupby(runs[Key.DEFINITION]).max().sort_values(ascending=False)
    return {str(definition): str(date) for definition, date in newest.items()}


def _single_runs(study: Study, uids: Sequence[str]) -> list[Sides]:
    """Single runs by uid; show an error and stop the page if the link does not name two existing runs or more."""
    if len(uids) < 2:
        st.error(
            "The link names one run: to compare two, give both, as `?a=<uid>&b=<uid>`; `c` and `d` are allowed, too."
        )
        st.stop()
    runs = _with_origins(study.reader(), RunFilter(uids=uids))
    rows = {uid: runs[runs["uid"] == uid] for uid in uids}
    for uid, row in rows.items():
        if row.empty:
            st.error(f"The link asks for run '{markdown(uid[:60])}', which is not in this database.")
            st.stop()
    for key, uid in zip(KEYS, uids, strict=False):
        run = rows[uid].iloc[0]
        description = (
            f"{run['strategy']}, {several(int(run['threads']), 'worker')}, {run['experiment']}, round {run['round']}"
        )
        link("runs", f"{key.upper()}: {markdown(description)}", run=run["uid"])
    return _pairs({key: rows[uid] for key, uid in zip(KEYS, uids, strict=False)})


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Reading the runs", max_entries=16)
def _runs(_study: Study, state: Identity, experiment: str, scale: str, platform: str, evidence: str) -> pd.DataFrame:
    """Runs of all definitions and any status, with their settings and software."""
    only = RunFilter(
        experiments=[experiment], scales=[scale], platforms=[platform], evidences=[evidence], joined=_study.joined
    )
    return _with_origins(_study.reader(), only)


def _with_origins(source: Engine, only: RunFilter) -> pd.DataFrame:
    runs = queries.runs(source, only).merge(queries.origins(source, only), on="uid", validate="one_to_one")
    return runs.assign(**{Key.DEFINITION: runs["definition_sha256"].str[:DIGITS], Key.CAMPAIGN: runs["campaign_uid"]})


def _write(chosen: Mapping[Key, Chosen], instead_of: Sequence[Key]) -> None:
    """Write the choices of sides to the URL in place of those of the sides `instead_of`."""
    view = {f"{side}.{key}": values for side, choices in chosen.items() for key, values in choices.items()}
    go_to(view, [key for key in url_parameters() if key.startswith(tuple(f"{side}." for side in instead_of))])
