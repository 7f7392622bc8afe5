"""The page of claims: the list of all claims, and the details of one."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from tmflow.base.text import markdown, several
from tmflow.charts.figures import slug
from tmflow.claims import chart
from tmflow.claims.originals import load_originals
from tmflow.claims.origins import KINDS, Judged
from tmflow.claims.render import MARKS, count_verdicts, heading, needed_evidence, without_runs
from tmflow.claims.schema import Check, Claim
from tmflow.claims.verdict import UNTESTED, Finding, in_words
from tmflow.portal.badges import badge, link_verdict, load_verdicts, show_claim
from tmflow.portal.figure_view import column_width, show_caption, show_frame, show_rows
from tmflow.portal.filter_widgets import choose
from tmflow.portal.links import download, halves, link, show_commands, show_text
from tmflow.portal.study_data import Study, title_of_experiment
from tmflow.portal.url_state import PLATFORM, Choice, Key, ValuesFilter
from tmflow.study.campaign import add_rounds, rerun

INTRODUCTION = (
    "Each finding of the 2017 study, the distributed study and the HPX study, and questions of ours, checked against "
    "the runs of one platform, separately for each kind of evidence. "
    "**Holds here**: every part was shown to hold on this platform. **Does not hold here**: a part was shown not to. "
    "**Inconclusive**: neither yet. **Untested here**: runs are missing, or the platform has too few hardware threads. "
    "**Cannot be tested**: no run of this software can decide it. Some words of the study have two readings, which are "
    "listed separately; the counts take each finding once."
)
OF = (ValuesFilter(Key.VERDICT, "Verdict"), ValuesFilter(Key.EVIDENCE, "Evidence"))


def show_list(verdicts: Sequence[Judged], study: Study, platform: str) -> None:
    """Show all claims: a link to the details of each, and a table to sort and download."""
    st.markdown(INTRODUCTION)
    without = without_runs(verdicts)
    with_runs = [verdict for verdict in verdicts if verdict.evidence not in without]
    choose([PLATFORM], study.counts, study.platform_names, defaults=study.first)
    st.caption(markdown(heading(study.reader(), platform, joined=study.joined)))
    columns = {"verdict": [it.finding.verdict for it in with_runs], "evidence": [it.evidence for it in with_runs]}
    chosen = [with_runs[place] for place in choose(OF, pd.DataFrame(columns)).rows.index]
    evidences = {verdict.evidence for verdict in with_runs}
    counts = [f"{kind}: {count_verdicts(with_runs, kind)}." for kind in KINDS if kind in evidences]
    missing = [f"No eligible run here is {' or '.join(without)}."] if without else []
    st.caption("  \n".join([*counts, *missing]))
    for column, part in zip(st.columns(2), halves(chosen), strict=True):
        with column:
            for verdict in part:
                show_claim(verdict, platform)
                st.caption(markdown(f"{verdict.claim.source.capitalize()}: {_deciding_number(verdict)}"))
    with st.expander("As a table"):
        _show_table(chosen)
        download("JSON", lambda: json.dumps([it.as_json() for it in chosen], allow_nan=False), "claims.json")


def _deciding_number(verdict: Judged) -> str:
    return in_words(verdict.finding.decides) if verdict.finding.decides else "no number decides it"


def _show_table(verdicts: Sequence[Judged]) -> None:
    """Show the table of claims; choosing a row opens its details."""
    rows = [
        (verdict.id, verdict.finding.verdict, verdict.evidence, verdict.claim.reach, _deciding_number(verdict),
         verdict.claim.source, verdict.claim.statement)
        for verdict in verdicts
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["id", "verdict", "evidence", "reach", "decides", "source", "statement"])
    table["shown"] = table["verdict"].map(MARKS) + " " + table["verdict"]

    def open_row(place: int) -> None:
        st.query_params[Key.CLAIM] = verdicts[place].id
        st.query_params[Key.EVIDENCE] = verdicts[place].evidence

    show_rows(
        table,
        "claims",
        open_row,
        height="content",
        column_order=["shown", "statement", "evidence", "reach", "decides", "source", "id"],
        column_config={
            "id": st.column_config.TextColumn(width=column_width(table["id"])),
            "shown": st.column_config.TextColumn("verdict", width=160),
            "reach": st.column_config.NumberColumn("hardware threads", help="the least number that decides it"),
            "decides": st.column_config.TextColumn("deciding number", width="large"),
            "statement": st.column_config.TextColumn("finding or question", width="large"),
        },
        alt=f"Table of {len(verdicts)} verdicts on claims",
    )


def _source(claim: Claim) -> str:
    return f"the study's {claim.source}" if claim.report == "2017 study" else claim.source


METRICS = {
    "speed": "speedup",
    "speed_of_others": "step_time",
    "accuracy": "accuracy",
    "accuracy_spread": "accuracy",
    "commits": "commits",
    "commits_of_attempts": "commits",
}  # for Explore; others show causes
MOST = 3  # other platforms whose verdicts a page shows; the page says how many more there are


def show_detail(of_kinds: Sequence[Judged], study: Study, platform: str) -> None:
    """Show one claim by one kind of evidence; kinds with runs come first."""
    by_availability = sorted(of_kinds, key=lambda verdict: verdict.machine is None)
    kinds = Choice(Key.EVIDENCE, "Evidence", tuple(verdict.evidence for verdict in by_availability))
    evidence = choose([PLATFORM, kinds], study.counts, study.platform_names, defaults=study.first).one(Key.EVIDENCE)
    shown = next(verdict for verdict in by_availability if verdict.evidence == evidence)
    claim, finding = shown.claim, shown.finding
    link("claims", "All claims", platform=platform)
    st.subheader(claim.statement)
    st.markdown(f"{badge(finding.verdict)} by **{evidence}** runs. Source: {_source(claim)}.")
    if figures := load_originals().figures_of_claim(claim):
        with st.container(horizontal=True):
            for figure in figures:
                link("figures", f"Figure {figure}", figure=figure, platform=platform)
    st.markdown("#### What the runs say")
    for number, (check, verdict) in enumerate(zip(claim.checks, finding.checks, strict=False), 1):
        _check(shown, check, verdict, number, study)
    if not finding.checks:
        st.info(markdown(finding.why))
    threads = f"{several(claim.reach, 'hardware thread')}, as its words require"
    again = f" It restates {claim.restates}, so the counts leave it out." if claim.restates else ""
    measured = "" if claim.studied_to is None else f" Its source measured up to {claim.studied_to}."
    st.caption(f"Decided on machines with at least {threads}.{measured}{again}")
    st.markdown("#### Evidence needed for a decision")
    st.markdown(markdown(needed_evidence(shown)))
    if finding.verdict in ("inconclusive", UNTESTED):
        if finding.more_rounds is None:
            st.caption("In the project's folder, on such a machine:")
            show_commands(*(rerun(name) for name in claim.experiments()))
        else:
            st.caption(
                "In the project's folder; this adds rounds for claims until about 8 hours have passed. Or set `rounds` "
                "of the experiment in config.yaml to the total number, with those measured, and leave out `--hours`:"
            )
            show_commands(add_rounds(claim.experiments()))
    if claim.explanation:
        st.markdown(f"#### Background\n{claim.explanation}")
        st.caption("Written for this claim, not computed from the runs above.")
    st.markdown("#### Runs used")
    _runs(shown, platform)
    st.markdown("#### Other evidence and platforms")
    _others(shown, of_kinds, study, platform)
    st.markdown("#### Cite it")
    show_text(_citation(shown, study, platform))


def _check(shown: Judged, check: Check, finding: Finding, number: int, study: Study) -> None:
    """Show one check: its verdict, the reason, and its numbers and tolerance as chart and table."""
    n_checks = len(shown.claim.checks)
    place = check.place_in(title_of_experiment(check.experiment))
    which = f" {number} of {n_checks}" if n_checks > 1 else ""
    st.markdown(f"**Check{which}: {markdown(place)}, {check.predicate.measure}** {badge(finding.verdict)}")
    st.markdown(markdown(finding.why))
    if not finding.numbers:
        return
    figure = chart.figure(shown, finding, f"{shown.claim.source}: {place}", study.revision)
    st.vega_lite_chart(figure.drawn, width="stretch", height=chart.height(finding))
    show_caption(slug("claim", shown.id, shown.evidence, str(number)), figure)
    with st.expander("The numbers"):
        table = figure.summary.drop(columns=["experiment"])
        show_frame(table, f"Numbers of the check of {place}", height="auto")


def _runs(shown: Judged, platform: str) -> None:
    """Show the number of runs, links to them, and the runs left out."""
    drawn = shown.as_json()["runs"]
    odd = f", {drawn['disturbed']} of them disturbed and {drawn['resumed']} resumed" if drawn["n"] else ""
    st.markdown(f"{several(drawn['n'], 'run')}{odd}.")
    by_place = {check.place_in(title_of_experiment(check.experiment)): check for check in shown.claim.checks}
    for name, check in by_place.items():
        view = {"experiment": check.experiment, "scale": "full", "platform": platform, "evidence": shown.evidence}
        view |= {factor: str(value) for factor, value in check.where.items()}
        link("runs", f"Runs of {name}", **view)
        link("explore", f"Explore {name}", metric=METRICS.get(check.predicate.measure.name, "causes"), **view)
    if shown.left_out:
        st.markdown("Left out, because different definitions or software versions are never pooled:")
    for origin in shown.left_out:
        title = title_of_experiment(origin.experiment)
        text = f"{len(origin.runs)} runs of “{title}” by {origin.software}, definition {origin.definition[:10]}"
        st.markdown(f"- {markdown(text)}")
    if not shown.left_out and shown.machine:
        st.caption("No run of this machine was left out because of its definition or software version.")


def _others(shown: Judged, of_kinds: Sequence[Judged], study: Study, platform: str) -> None:
    for verdict in of_kinds:
        if verdict.evidence != shown.evidence:
            link_verdict(verdict, platform, "on this platform")
    counts = study.counts
    held = counts[counts["experiment"].isin(shown.claim.experiments()) & (counts["scale"] == "full")]
    most_first = held.groupby("platform")["n_runs"].sum().sort_values(ascending=False, kind="stable").index
    others = [other for other in most_first if other != platform]
    for other in others[:MOST]:
        for verdict in load_verdicts(study, other, [shown.id]):
            if verdict.evidence == shown.evidence:
                link_verdict(verdict, other, f"on {markdown(study.platform_names[other])}")
    if len(others) > MOST:
        st.caption(f"{len(others) - MOST} more platforms have runs of these experiments: choose one above.")
    if not others:
        st.caption("No other platform here has runs of these experiments.")


def _citation(shown: Judged, study: Study, platform: str) -> str:
    counts = study.counts
    newest = str(counts.loc[counts["platform"] == platform, "newest_run_utc"].max())[:10]
    return (
        f"tmflow, claim {shown.id} ({shown.claim.source}), by {shown.evidence} runs on platform {platform}: "
        f"{shown.finding.verdict}. Database revision {study.revision}, newest run {newest}."
    )
