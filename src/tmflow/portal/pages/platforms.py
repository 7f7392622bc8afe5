"""The list of platforms, and one platform in full."""

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
from tmflow.platform.description import UNKNOWN, described, told, transactions
from tmflow.platform.key import is_local, slug_of
from tmflow.portal.badges import by_status
from tmflow.portal.figure_view import height_of, show_chart
from tmflow.portal.links import link, with_sources
from tmflow.portal.study_data import Identity, Study, sources_apart
from tmflow.portal.url_state import JOINED, TOLD, Key
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
PAGES = ("explore", "runs", "compare")  # that show what ran


def listing(study: Study) -> None:
    """All platforms, a row for each source of their runs; words in the search box must all occur in a row.

    Those whose runs were ingested here come first, and of these the ones with the most runs.
    """
    found = _platforms(study.url, study.identity, study.joined).merge(_ran(study.counts), on="platform", how="left")
    found = found.assign(contributed=~found["platform"].map(is_local))
    found = found.sort_values(["contributed", "n_runs", "platform_name"], ascending=[True, False, True], kind="stable")
    words = st.query_params.get(Key.SEARCH, "")
    st.session_state[Key.SEARCH] = words
    st.text_input(
        "Search", key=Key.SEARCH, placeholder="words of a processor, an ISA, a name …", on_change=_search, max_chars=200
    )
    text = found[SEARCHED].astype("str").agg(" ".join, axis="columns").str.lower()
    for word in words.lower().split():
        found = found[text.loc[found.index].str.contains(word, regex=False)]
    st.caption(f"{several(len(found), 'platform')}. Choose a row to see it in full; a heading sorts.")
    if found.empty:
        st.info("No platform has all of these words: search for fewer.")
        return
    shown = found.assign(memory_bytes=[told("memory_bytes", value) for value in found["memory_bytes"].astype(object)])
    st.dataframe(
        shown[[*SHOWN]].rename(columns=SHOWN),
        hide_index=True,
        height=height_of(found),
        column_config={"platform": st.column_config.TextColumn(width="large")},
        on_select=partial(_open, list(found["platform"])),
        selection_mode="single-row",
        key="platforms",
        alt=f"Table of {several(len(found), 'platform')}",
    )


def detail(study: Study, key: str) -> None:
    """One platform: its facts, its noise, and what ran there."""
    st.page_link("views/platforms.py", label="All platforms", icon=":material/arrow_back:")
    reader = study.reader()
    facts = circumstances.platform_facts(reader, [key]).get(key)
    counts = study.counts[study.counts["platform"] == key]
    if facts is None or (counts.empty and not is_local(key)):
        st.warning(f"The link asks for platform '{markdown(key[:TOLD])}', which is not in this database.")
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
    st.subheader("Whose runs these are")
    _sources(study, key)
    st.subheader("What ran there")
    _what_ran(counts, key)
    st.subheader("What its transactions and memory do")
    _probe(platform_queries.newest_probe(reader, key, joined=study.joined))
    st.subheader("Facts")
    st.dataframe(described(facts), hide_index=True, height="content", alt="Facts of the platform")
    st.subheader("Settings it ran under")
    _settings(settings, runs)
    st.subheader("Software that ran there")
    _software(runs, counts)


def _probe(found: Probe | None) -> None:
    if found is None:
        st.info("Not probed yet: `tmflow probe` does that there, and `tmflow bundle export` takes along what it found.")
        return
    st.caption(f"The newest probe, {found.started_at_utc[:16].replace('T', ' ')} UTC, {found.evidence}.")
    lines = pd.DataFrame(quantities(found), columns=["quantity", "found"])
    st.dataframe(lines, hide_index=True, height="content", alt="What the probe found")


def _links(key: str, runs: pd.DataFrame) -> None:
    with st.container(horizontal=True):
        link("claims", "Verdicts of this platform", platform=key)
        if len(runs):
            newest = runs.iloc[0]
            link("runs", f"Newest run, {newest['started_at_utc'][:16].replace('T', ' ')} UTC", run=newest["uid"])


def _sources(study: Study, key: str) -> None:
    """Who brought runs of this platform, how many, and links to those of each source, or of all joined."""
    slug_, apart = slug_of(key), sources_apart(study)
    local = apart[apart["platform"] == slug_]
    contributed = platform_queries.contributions_to(study.reader(), key)
    rows = [("ingested here", "", "", int(local["n_runs"].sum()), slug_)] if len(local) else []
    rows += [
        (str(its["name"]), str(its["identity"]), str(its["imported_at_utc"])[:10], int(its["n_runs"]), its["platform"])
        for its in contributed.to_dict("records")
    ]
    table = pd.DataFrame(rows, columns=["source", "identity", "imported", "runs", "open"])
    table["open"] = [f"platforms?{urlencode({str(Key.PLATFORM): its})}" for its in table["open"]]
    st.dataframe(
        table,
        hide_index=True,
        height="content",
        column_config={"open": st.column_config.LinkColumn("Open", display_text="open", width="small")},
        alt="Table of the sources of the platform's runs",
    )
    if study.joined:
        link("platforms", "Show the sources apart", platform=slug_, join="")
    elif len(rows) > 1:
        st.caption("Every page shows the runs of one source alone, for nobody here can check what others sent.")
        link("platforms", "Join the sources", platform=slug_, join=JOINED)


def _noise(study: Study, name: str, key: str, facts: circumstances.Facts, runs: pd.DataFrame) -> None:
    """How far a time may be trusted here: disturbed runs, spread between rounds, steal time, load."""
    st.subheader("Noise")
    which = _which(runs, study.counts[study.counts["platform"] == key])
    ran = runs[runs["status"] == "ok"]
    known = ran["disturbed"].dropna()
    found = deviations(runs, facts.get("threads_logical"))
    measured = noise(found)
    with st.container(horizontal=True):
        for label, value, help_ in (
            ("Between rounds", _per_cent(measured.between),
             "Standard deviation of the log of the time of the same point in different rounds, over all points."),
            ("Within a round", _per_cent(measured.within),
             "What of it a comparison sees that is paired within rounds: the mean of each round taken out."),
            ("Disturbed runs", _per_cent(known.mean() if len(known) else None),
             f"{int(known.sum())} of {len(known)}: others took CPU time; {len(ran) - len(known)} more cannot tell."),
            ("Stolen time", _per_cent(ran["steal_fraction"].mean()), "CPU time that a hypervisor gave away, mean."),
            ("Time of others", _per_cent(ran["others_fraction"].mean()), "CPU time of other processes, mean."),
            ("Load before", _number(ran["load1_before"].median()), "Processes that were ready, over a minute; median."),
        ):  # fmt: skip
            st.metric(label, value, help=help_, border=True, width=165)
    if found.empty:
        st.info(f"No spread to show: no point has measured times in two rounds ({which}).")
        return
    bins = histogram(found)
    told_of = noise_charts.caption(measured, found, bins, name, which, study.revision)
    show_chart(slug("noise", key), Figure(noise_charts.histogram(bins), told_of, bins))


def _what_ran(counts: pd.DataFrame, key: str) -> None:
    if counts.empty:
        st.info("No run of this platform is stored.")
        return
    table = by_status(counts, RAN)
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
        height=height_of(table),
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
    texts = {name: [told(name, value) for value in shown[name].astype(object)] for name in columns}
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
        height=height_of(table),
        alt="Software that measured runs of the platform",
    )


def _which(runs: pd.DataFrame, counts: pd.DataFrame) -> str:
    """Which runs of a platform were read, in words."""
    total = int(counts["n_runs"].sum())
    if len(runs) == total:
        return f"all {several(total, 'run')} of it"
    return f"its {len(runs):,} newest runs, of {total:,} in all"


def _per_cent(fraction: float | None) -> str:
    return UNKNOWN if fraction is None or pd.isna(fraction) else f"{_two_digits(100 * fraction)} %"


def _number(value: float) -> str:
    return UNKNOWN if pd.isna(value) else _two_digits(value)


def _two_digits(value: float) -> str:
    """All digits of a large number: two of 100 would be 1e+02."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _ran(counts: pd.DataFrame) -> pd.DataFrame:
    """platform, n_runs, newest_run_utc of each platform."""
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


# Kept as it is, for all sessions: nobody changes a table.
@st.cache_resource(show_spinner="Reading the newest runs", max_entries=8)
def _newest(_url: URL, state: Identity, key: str, joined: bool) -> pd.DataFrame:
    return platform_queries.newest_runs(engine.open_reader(_url), key, joined=joined)
