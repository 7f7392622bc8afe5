"""The page of platforms: the list, and the details of one."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

import pandas as pd
import streamlit as st
from sqlalchemy import URL

from tmflow.analysis.noise import deviations, histogram, noise
from tmflow.base.escaping import markdown
from tmflow.base.text import several
from tmflow.charts import noise as noise_charts
from tmflow.charts.figures import Figure, slug
from tmflow.platform.description import UNKNOWN, described, format_fact, transactions
from tmflow.platform.key import is_local, slug_of
from tmflow.portal.badges import count_by_status
from tmflow.portal.figure_view import show_chart, table_height
from tmflow.portal.links import link, with_sources
from tmflow.portal.study_data import Identity, Study, counts_by_source
from tmflow.portal.url_state import JOINED, MAX_QUOTED, Key
from tmflow.probe.document import Probe
from tmflow.probe.text import quantities
from tmflow.store import engine, platform_queries
from tmflow.store import platform_queries as circumstances

SHOWN = {
    "platform_name": "platform", "isa": "ISA", "cores_physical": "cores", "threads_logical": "hardware threads",
    "memory_bytes": "memory", "tm_capability": "transactions reported", "n_runs": "runs",
    "newest_run_utc": "newest run (UTC)", "platform": "link",
}  # fmt: skip
SEARCHED = ["platform_name", "platform", "isa", "cpu_vendor", "cpu_model", "tm_capability"]
RAN = ["experiment", "scale", "evidence"]
PAGES = ("explore", "runs", "compare")  # pages that show the runs


def show_list(study: Study) -> None:
    """Show all platforms with a row for each source of their runs; every word of the search must occur in a row.

    Platforms whose runs were ingested here come first, those with more runs before others.
    """
    table = _platforms(study.url, study.identity, study.joined).merge(_ran(study.counts), on="platform", how="left")
    table = table.assign(contributed=~table["platform"].map(is_local))
    table = table.sort_values(["contributed", "n_runs", "platform_name"], ascending=[True, False, True], kind="stable")
    words = st.query_params.get(Key.SEARCH, "")
    st.session_state[Key.SEARCH] = words
    st.text_input(
        "Search", key=Key.SEARCH, placeholder="words of a processor, an ISA, a name …", on_change=_search, max_chars=200
    )
    text = table[SEARCHED].astype("str").agg(" ".join, axis="columns").str.lower()
    for word in words.lower().split():
        table = table[text.loc[table.index].str.contains(word, regex=False)]
    st.caption(f"{several(len(table), 'platform')}. Choose a row for details; click a heading to sort.")
    if table.empty:
        st.info("No platform matches all of these words: search for fewer.")
        return
    shown = table.assign(
        memory_bytes=[format_fact("memory_bytes", value) for value in table["memory_bytes"].astype(object)]
    )
    st.dataframe(
        shown[[*SHOWN]].rename(columns=SHOWN),
        hide_index=True,
        height=table_height(table),
        column_config={"platform": st.column_config.TextColumn(width="large")},
        on_select=partial(_open, list(table["platform"])),
        selection_mode="single-row",
        key="platforms",
        alt=f"Table of {several(len(table), 'platform')}",
    )


def show_detail(study: Study, key: str) -> None:
    """Show one platform: its facts, its noise, and its runs."""
    st.page_link("views/platforms.py", label="All platforms", icon=":material/arrow_back:")
    reader = study.reader()
    facts = circumstances.platform_facts(reader, [key]).get(key)
    counts = study.counts[study.counts["platform"] == key]
    if facts is None or (counts.empty and not is_local(key)):
        st.warning(f"The link asks for platform '{markdown(key[:MAX_QUOTED])}', which is not in this database.")
        return
    name = counts["platform_name"].iloc[0] if len(counts) else key
    settings = platform_queries.environments(reader, key, joined=study.joined)
    runs = _newest(study.url, study.state(platform=key), key, study.joined)
    st.header(markdown(name))
    st.caption("Permanent link")
    query = urlencode(with_sources({str(Key.PLATFORM): key}))
    st.code(f"{st.context.url or ''}?{query}", language=None, wrap_lines=True)
    st.markdown(f"**Can it run hardware transactions?** {markdown(transactions(facts, settings))}")
    _links(key, runs)
    _noise(study, name, key, facts, runs)
    st.subheader("Sources of the runs")
    _sources(study, key)
    st.subheader("Runs")
    _runs_table(counts, key)
    st.subheader("Measured transactions and memory")
    _probe(platform_queries.newest_probe(reader, key, joined=study.joined))
    st.subheader("Facts")
    st.dataframe(described(facts), hide_index=True, height="content", alt="Facts of the platform")
    st.subheader("Settings")
    _settings(settings, runs)
    st.subheader("Software")
    _software(runs, counts)


def _probe(probe: Probe | None) -> None:
    if probe is None:
        st.info("Not probed yet: run `tmflow probe` on the machine; `tmflow bundle export` then includes the results.")
        return
    st.caption(f"The newest probe, {probe.started_at_utc[:16].replace('T', ' ')} UTC, {probe.evidence}.")
    lines = pd.DataFrame(quantities(probe), columns=["quantity", "found"])
    st.dataframe(lines, hide_index=True, height="content", alt="Results of the probe")


def _links(key: str, runs: pd.DataFrame) -> None:
    with st.container(horizontal=True):
        link("claims", "Verdicts of this platform", platform=key)
        if len(runs):
            newest = runs.iloc[0]
            link("runs", f"Newest run, {newest['started_at_utc'][:16].replace('T', ' ')} UTC", run=newest["uid"])


def _sources(study: Study, key: str) -> None:
    """Show the sources of this platform's runs with their numbers, and links to each source or to all joined."""
    slug_, counts = slug_of(key), counts_by_source(study)
    local = counts[counts["platform"] == slug_]
    contributed = platform_queries.contributions_to(study.reader(), key)
    rows = [("ingested here", "", "", int(local["n_runs"].sum()), slug_)] if len(local) else []
    rows += [
        (str(row["name"]), str(row["identity"]), str(row["imported_at_utc"])[:10], int(row["n_runs"]), row["platform"])
        for row in contributed.to_dict("records")
    ]
    table = pd.DataFrame(rows, columns=["source", "identity", "imported", "runs", "open"])
    table["open"] = [f"platforms?{urlencode({str(Key.PLATFORM): row})}" for row in table["open"]]
    st.dataframe(
        table,
        hide_index=True,
        height="content",
        column_config={"open": st.column_config.LinkColumn("Open", display_text="open", width="small")},
        alt="Table of the sources of the platform's runs",
    )
    if study.joined:
        link("platforms", "Separate the sources", platform=slug_, join="")
    elif len(rows) > 1:
        st.caption("Every page shows the runs of one source only, because contributed runs cannot be verified here.")
        link("platforms", "Join the sources", platform=slug_, join=JOINED)


def _noise(study: Study, name: str, key: str, facts: circumstances.Facts, runs: pd.DataFrame) -> None:
    """Show how noisy times are: disturbed runs, spread between rounds, steal time, load."""
    st.subheader("Noise")
    which = _which(runs, study.counts[study.counts["platform"] == key])
    ran = runs[runs["status"] == "ok"]
    flags = ran["disturbed"].dropna()
    spread = deviations(runs, facts.get("threads_logical"))
    measured = noise(spread)
    with st.container(horizontal=True):
        for label, value, help_ in (
            ("Between rounds", _per_cent(measured.between),
             "Standard deviation of the log of the time of the same point in different rounds, over all points."),
            ("Within a round", _per_cent(measured.within),
             "The spread that remains in comparisons paired within rounds, after subtracting the mean of each round."),
            ("Disturbed runs", _per_cent(flags.mean() if len(flags) else None),
             f"{int(flags.sum())} of {len(flags)}: others used the CPU; unknown for {len(ran) - len(flags)} more."),
            ("Stolen time", _per_cent(ran["steal_fraction"].mean()), "Mean share of CPU time taken by the hypervisor."),
            ("CPU used by others", _per_cent(ran["others_fraction"].mean()), "Mean CPU time of other processes."),
            ("Load before", _number(ran["load1_before"].median()), "Median one-minute load average before a run."),
        ):  # fmt: skip
            st.metric(label, value, help=help_, border=True, width=165)
    if spread.empty:
        st.info(f"No spread to show: no point has measured times in two rounds ({which}).")
        return
    bins = histogram(spread)
    caption = noise_charts.caption(measured, spread, bins, name, which, study.revision)
    show_chart(slug("noise", key), Figure(noise_charts.histogram(bins), caption, bins))


def _runs_table(counts: pd.DataFrame, key: str) -> None:
    if counts.empty:
        st.info("No run of this platform is stored.")
        return
    table = count_by_status(counts, RAN)
    joined = with_sources({})
    for page in PAGES:
        side = "a." if page == "compare" else ""
        table[page] = [
            f"{page}?{urlencode({f'{side}{key}': value for key, value in {**row, 'platform': key}.items()} | joined)}"
            for row in table[RAN].to_dict("records")
        ]
    st.dataframe(
        table,
        hide_index=True,
        height=table_height(table),
        column_config={
            page: st.column_config.LinkColumn(page.capitalize(), display_text="open", width="small") for page in PAGES
        },
        alt="Table of the runs of this platform by experiment, scale, evidence and status",
    )


def _settings(settings: pd.DataFrame, runs: pd.DataFrame) -> None:
    if settings.empty:
        st.info("No settings were recorded.")
        return
    n_runs = runs.groupby("env_sha256").size()
    shown = settings.assign(of_newest=settings["env_sha256"].map(n_runs).fillna(0).astype(int))
    columns = [name for name in platform_queries.SETTINGS if name not in ("env_sha256", "mitigations_json")]
    texts = {name: [format_fact(name, value) for value in shown[name].astype(object)] for name in columns}
    texts["runs that were read"] = [str(n) for n in shown["of_newest"]]
    turned = pd.DataFrame(texts).T.reset_index(names="setting")
    turned.columns = ["setting", *(f"settings {number}" for number in range(1, len(shown) + 1))]
    st.dataframe(turned, hide_index=True, height="content", alt="Settings under which the platform ran")


def _software(runs: pd.DataFrame, counts: pd.DataFrame) -> None:
    if runs.empty:
        st.info("Nothing measured yet.")
        return
    table = runs.groupby(["tmflow", "git_commit", "software_sha256"], dropna=False, sort=False).agg(
        runs=("uid", "size"), first=("started_at_utc", "min"), last=("started_at_utc", "max")
    )
    table = table.reset_index().fillna({"git_commit": UNKNOWN})
    st.caption(f"Of {_which(runs, counts)}.")
    st.dataframe(
        table.assign(git_commit=table["git_commit"].str[:10], software_sha256=table["software_sha256"].str[:10]),
        hide_index=True,
        height=table_height(table),
        alt="Software that measured runs of the platform",
    )


def _which(runs: pd.DataFrame, counts: pd.DataFrame) -> str:
    """Describe which runs of a platform were read."""
    total = int(counts["n_runs"].sum())
    if len(runs) == total:
        return f"all {several(total, 'run')}"
    return f"the {len(runs):,} newest of {total:,} runs"


def _per_cent(fraction: float | None) -> str:
    return UNKNOWN if fraction is None or pd.isna(fraction) else f"{_two_digits(100 * fraction)} %"


def _number(value: float) -> str:
    return UNKNOWN if pd.isna(value) else _two_digits(value)


def _two_digits(value: float) -> str:
    """Format with two significant digits, or all digits of the integer part if there are more."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _ran(counts: pd.DataFrame) -> pd.DataFrame:
    """The columns platform, n_runs and newest_run_utc, a row for each platform."""
    table = counts.groupby("platform").agg(n_runs=("n_runs", "sum"), newest_run_utc=("newest_run_utc", "max"))
    return table.reset_index()


def _search() -> None:
    words = st.session_state[Key.SEARCH]
    if words:
        st.query_params[Key.SEARCH] = words
    else:
        st.query_params.pop(Key.SEARCH, None)


def _open(keys: list[str]) -> None:
    chosen = st.session_state["platforms"]["selection"]["rows"]
    if chosen:
        st.query_params[Key.PLATFORM] = keys[chosen[0]]


@st.cache_data(show_spinner=False, max_entries=4)
def _platforms(_url: URL, identity: Identity, joined: bool) -> pd.DataFrame:
    return platform_queries.platforms(engine.open_reader(_url), joined=joined)


# Shared by all sessions without a copy: no caller modifies a table.
@st.cache_resource(show_spinner="Reading the newest runs", max_entries=8)
def _newest(_url: URL, state: Identity, key: str, joined: bool) -> pd.DataFrame:
    return platform_queries.newest_runs(engine.open_reader(_url), key, joined=joined)
