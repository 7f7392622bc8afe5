"""The page of platforms: the list, and the details of one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from tmflow.analysis.noise import count_disturbed, deviations, histogram, load_in_words, noise
from tmflow.base.text import markdown, several
from tmflow.charts.figures import Figure, slug
from tmflow.charts.measure_charts import draw_noise, noise_caption
from tmflow.platform.description import UNKNOWN, described, format_fact, transactions
from tmflow.platform.facts import is_local, slug_of
from tmflow.portal.badges import count_by_status
from tmflow.portal.figure_view import show_chart, show_frame, show_rows, table_height
from tmflow.portal.filter_widgets import search_box, warn_unknown
from tmflow.portal.links import link, show_permanent_link, with_sources
from tmflow.portal.platform_matrix import (
    VERDICTS,
    choose_model,
    count_verdicts,
    load_matrix,
    machines,
    show_finding,
    show_notes,
)
from tmflow.portal.study_data import Identity, Study, counts_by_source, experiment_titles
from tmflow.portal.url_state import JOINED, Key
from tmflow.probe.document import Probe
from tmflow.probe.text import quantities
from tmflow.reports import findings
from tmflow.reports.findings import CAPABILITY, COLUMNS, LOST
from tmflow.store import platform_queries

NOTHING = "–"  # in place of a number that nobody recorded
SHOWN = {
    "platform_name": "platform", "cores_physical": "cores", "threads_logical": "hardware threads",
    "tm_capability": CAPABILITY, **{title: title for title in (*COLUMNS.values(), LOST, VERDICTS)},
    "n_runs": "runs", "newest_run_utc": "newest run (UTC)", "isa": "ISA", "memory_bytes": "memory", "platform": "link",
}  # fmt: skip
SEARCHED = ["platform_name", "platform", "isa", "cpu_vendor", "cpu_model", "tm_capability"]
READ = "runs that were read"
RAN = ["experiment", "scale", "evidence"]
PAGES = ("explore", "runs", "compare")  # pages that show the runs


def show_list(study: Study) -> None:
    """Show all platforms with a row for each source of their runs; every word of the search must occur in a row.

    The rows of the first of `measured_platforms` have their findings on one model, and the counts of their verdicts.
    Platforms whose runs were ingested here come first, those with more runs before others.
    """
    runs = study.counts.groupby("platform").agg(n_runs=("n_runs", "sum"), newest_run_utc=("newest_run_utc", "max"))
    model = choose_model(study)
    matrix = load_matrix(study, model)
    table = machines(study).join(runs, on="platform")
    of_findings = findings.matrix(matrix.findings, table)
    of_findings[VERDICTS] = [count_verdicts(study, key) for key in of_findings["platform"]]
    kept = ["platform", *COLUMNS.values(), LOST, VERDICTS]
    table = table.merge(of_findings[kept].astype("str"), on="platform", how="left")
    table = table.fillna(dict.fromkeys(kept, ""))
    table = table.assign(contributed=~table["platform"].map(is_local))
    table = table.sort_values(["contributed", "n_runs", "platform_name"], ascending=[True, False, True], kind="stable")
    words = st.query_params.get(Key.SEARCH, "")
    search_box("Search", words, placeholder="words of a processor, an ISA, a name …", max_chars=200)
    text = table[SEARCHED].astype("str").agg(" ".join, axis="columns").str.lower()
    for word in words.lower().split():
        table = table[text.loc[table.index].str.contains(word, regex=False)]
    st.caption(f"{several(len(table), 'platform')}. Choose a row for details; click a heading to sort.")
    if table.empty:
        st.info("No platform matches all of these words: search for fewer.")
        return
    memory = [format_fact("memory_bytes", value) for value in table["memory_bytes"].astype(object)]

    def open_row(place: int) -> None:
        st.query_params[Key.PLATFORM] = table["platform"].iloc[place]

    show_rows(
        table.assign(memory_bytes=memory)[[*SHOWN]].rename(columns=SHOWN),
        "platforms",
        open_row,
        height=table_height(table),
        column_config={"platform": st.column_config.TextColumn(width="medium")},
        alt=f"Table of {several(len(table), 'platform')}",
    )
    show_notes(matrix, model)


def show_detail(study: Study, key: str) -> None:
    """Show one platform: its facts, its noise, and its runs."""
    st.page_link("views/platforms.py", label="All platforms", icon=":material/arrow_back:")
    reader = study.reader()
    facts = platform_queries.platform_facts(reader, [key]).get(key)
    counts = study.counts[study.counts["platform"] == key]
    if facts is None or (counts.empty and not is_local(key)):
        warn_unknown("platform", key, "which is not in this database.")
        return
    name = counts["platform_name"].iloc[0] if len(counts) else key
    settings = platform_queries.environments(reader, key, joined=study.joined)
    runs, total = _newest(study, study.state(platform=key), key), int(counts["n_runs"].sum())
    of_runs = f"all {several(total, 'run')}" if len(runs) == total else f"the {len(runs):,} newest of {total:,} runs"
    st.header(markdown(name))
    if counts.empty:  # a platform that only contributions have
        st.info("No run of this platform was measured here. Its contributed runs are pages of their own:")
        _show_sources(study, key)
        show_frame(described(facts), "Facts of the platform", height="content")
        return
    show_finding(study, key)
    show_permanent_link("Permanent link", with_sources({str(Key.PLATFORM): key}))
    st.markdown(f"**Can it run hardware transactions?** {markdown(transactions(facts, settings))}")
    with st.container(horizontal=True):
        link("claims", "Verdicts of this platform", platform=key)
        if len(runs):
            newest = runs.iloc[0]
            link("runs", f"Newest run, {_minute(newest['started_at_utc'])} UTC", run=newest["uid"])
    st.subheader("Noise")
    _show_noise(study, name, key, facts, runs, of_runs)
    st.subheader("Sources of the runs")
    _show_sources(study, key)
    st.subheader("Runs")
    _show_runs(counts, key)
    st.subheader("Measured transactions and memory")
    _show_probe(platform_queries.newest_probe(reader, key, joined=study.joined))
    st.subheader("Facts")
    show_frame(described(facts), "Facts of the platform", height="content")
    st.subheader("Settings")
    _show_settings(settings, runs)
    st.subheader("Software")
    _show_software(runs, of_runs)


def _minute(timestamp: str) -> str:
    return timestamp[:16].replace("T", " ")


def _show_noise(
    study: Study, name: str, key: str, facts: platform_queries.Facts, runs: pd.DataFrame, of_runs: str
) -> None:
    """Show how noisy times are: disturbed runs, spread between rounds, steal time, load."""
    ran = runs[runs["status"] == "ok"]
    flags = ran["disturbed"].dropna()
    spread = deviations(runs, facts.get("threads_logical"))
    measured = noise(spread)
    load = ran["load1_before"].median()
    counted = count_disturbed(runs)
    others = counted.load
    with st.container(horizontal=True):
        for label, value, help_ in (
            ("Over all rounds", _per_cent(measured.total),
             "Standard deviation of the log of the time of the same point in different rounds, over all points."),
            ("Within a round", _per_cent(measured.within),
             "The spread that remains in comparisons paired within rounds, after subtracting the mean of each round."),
            ("Disturbed runs", _per_cent(flags.mean() if len(flags) else None),
             f"{int(flags.sum())} of {len(flags)}: others used the CPU; unknown for {len(ran) - len(flags)} more."),
            ("Stolen time", _per_cent(ran["steal_fraction"].mean()), "Mean share of CPU time taken by the hypervisor."),
            ("CPU used by others", _per_cent(others.mean if others else None),
             load_in_words(others, counted.rounds) if others else "No measured run recorded it."),
            ("Load before", NOTHING if pd.isna(load) else _two_digits(load),
             "Median one-minute load average before a run."),
        ):  # fmt: skip
            st.metric(label, value, help=help_, border=True, width=190)
    if spread.empty:
        st.info(f"No spread to show: no point has measured times in two rounds ({of_runs}).")
        return
    bins = histogram(spread)
    caption = noise_caption(measured, spread, bins, name, of_runs, study.revision)
    show_chart(slug("noise", key), Figure(draw_noise(bins), caption, bins))


def _per_cent(fraction: float | None) -> str:
    return NOTHING if fraction is None or pd.isna(fraction) else f"{_two_digits(100 * fraction)} %"


def _two_digits(value: float) -> str:
    """Format with two significant digits, or all digits of the integer part if there are more."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _show_sources(study: Study, key: str) -> None:
    """Show the sources of this platform's runs with their numbers, and links to each source or to all joined."""
    local, counts = slug_of(key), counts_by_source(study)
    of_local = counts.loc[counts["platform"] == local, "n_runs"]
    rows = [("ingested here", "", "", int(of_local.sum()), local)] if len(of_local) else []
    rows += [
        (str(row["name"]), str(row["identity"]), str(row["imported_at_utc"])[:10], int(row["n_runs"]), row["platform"])
        for row in platform_queries.contributions_to(study.reader(), key).to_dict("records")
    ]
    table = pd.DataFrame(rows, columns=["source", "identity", "imported", "runs", "open"])
    table["open"] = [f"platforms?{urlencode({str(Key.PLATFORM): source})}" for source in table["open"]]
    show_frame(
        table, "Table of the sources of the platform's runs", height="content", column_config={"open": _links("Open")}
    )
    if study.joined:
        link("platforms", "Separate the sources", platform=local, join="")
    elif len(rows) > 1:
        st.caption("Every page shows the runs of one source only, because contributed runs cannot be verified here.")
        link("platforms", "Join the sources", platform=local, join=JOINED)


def _links(heading: str) -> Any:
    """The configuration of a column of links."""
    return st.column_config.LinkColumn(heading, display_text="open", width="small")


def _show_runs(counts: pd.DataFrame, key: str) -> None:
    """Show the runs by experiment, scale, evidence and status, with links to the pages that show them."""
    table = count_by_status(counts, RAN)
    for page in PAGES:
        side = "a." if page == "compare" else ""
        views = [{f"{side}{name}": value for name, value in {**row, "platform": key}.items()} | with_sources({})
                 for row in table[RAN].to_dict("records")]  # fmt: skip
        table[page] = [f"{page}?{urlencode(view)}" for view in views]
    alt = "Table of the runs of this platform by experiment, scale, evidence and status"
    titled = table.assign(experiment=table["experiment"].replace(experiment_titles()))
    show_frame(titled, alt, column_config={page: _links(page.capitalize()) for page in PAGES})


def _show_probe(probe: Probe | None) -> None:
    if probe is None:
        st.info("Not probed yet: run `tmflow probe` on the machine; `tmflow bundle export` then includes the results.")
        return
    st.caption(f"The newest probe, {_minute(probe.started_at_utc)} UTC, {probe.evidence}.")
    show_frame(pd.DataFrame(quantities(probe), columns=["quantity", "found"]), "Results of the probe", height="content")


def _show_settings(settings: pd.DataFrame, runs: pd.DataFrame) -> None:
    if settings.empty:
        st.info("No settings were recorded.")
        return
    columns = [name for name in platform_queries.SETTINGS if name not in ("env_sha256", "mitigations_json")]
    texts = {name: [format_fact(name, value) for value in settings[name].astype(object)] for name in columns}
    n_runs = runs["env_sha256"].value_counts()
    table = pd.DataFrame(texts | {READ: [n_runs.get(sha256, 0) for sha256 in settings["env_sha256"]]})
    table = table.groupby(columns, sort=False, as_index=False).sum()  # they may differ in what a round measured
    table = table.astype({READ: str}).set_axis([f"settings {number}" for number in range(1, len(table) + 1)])
    show_frame(table.T.reset_index(names="setting"), "Settings under which the platform ran", height="content")


def _show_software(runs: pd.DataFrame, of_runs: str) -> None:
    if runs.empty:
        st.info("Nothing measured yet.")
        return
    table = runs.groupby(["tmflow", "git_commit", "software_sha256"], dropna=False, sort=False).agg(
        runs=("uid", "size"), first=("started_at_utc", "min"), last=("started_at_utc", "max")
    )
    table = table.reset_index().fillna({"git_commit": UNKNOWN})
    st.caption(f"Of {of_runs}.")
    short = {name: table[name].str[:10] for name in ("git_commit", "software_sha256")}
    show_frame(table.assign(**short), "Software that measured runs of the platform")


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Reading the newest runs", max_entries=8)
def _newest(_study: Study, state: Identity, key: str) -> pd.DataFrame:
    return platform_queries.newest_runs(_study.reader(), key, joined=_study.joined)
