"""The page of claims: the list of all claims, and the details of one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from tmflow.base.escaping import markdown
from tmflow.base.text import several
from tmflow.charts.figures import slug
from tmflow.claims import chart
from tmflow.claims.checks import Check
from tmflow.claims.heading import heading
from tmflow.claims.judge import KINDS, Judged
from tmflow.claims.original_figures import load_originals
from tmflow.claims.render import MARKS, count_verdicts, needed_evidence, without_runs
from tmflow.claims.schema import Claim
from tmflow.claims.verdict import Finding, in_words
from tmflow.portal.badges import badge, load_verdicts, verdict_badge
from tmflow.portal.figure_view import column_width, show_caption
from tmflow.portal.links import halves, link, show_commands
from tmflow.portal.study_data import Study
from tmflow.portal.url_state import PLATFORM, Filter, Key, choose
from tmflow.study.commands import rerun

INTRODUCTION = (
    "Each finding of the 2017 study, checked against the runs of one platform, separately for each kind of evidence. "
    "**Reproduced**: every part was shown to hold. **Contradicted**: a part was shown not to hold. **Inconclusive**: "
    "neither yet. **Untested**: runs or a machine are missing."
)
OF = (
    Filter(Key.VERDICT, "Verdict", several=True, with_all=True),
    Filter(Key.EVIDENCE, "Evidence", several=True, with_all=True),
)


def show_list(verdicts: Sequence[Judged], study: Study, platform: str) -> None:
    """Show all claims: a link to the details of each, and a table to sort and download."""
    st.markdown(INTRODUCTION)
    without = without_runs(verdicts)
    with_runs = [verdict for verdict in verdicts if verdict.evidence not in without]
    choose([PLATFORM], study.counts, study.platform_names, defaults=study.first)
    st.caption(markdown(heading(study.reader(), platform, joined=study.joined)))
    chosen = choose(OF, _rows(with_runs))
    counts = [
        f"{kind}: {count_verdicts(with_runs, kind)}."
        for kind in KINDS
        if any(verdict.evidence == kind for verdict in with_runs)
    ]
    missing = [f"No run here is {' or '.join(without)}."] if without else []
    st.caption("  \n".join([*counts, *missing]))
    rows = chosen.rows.to_dict("records")
    for column, part in zip(st.columns(2), halves(rows), strict=True):
        with column:
            for row in part:
                view = {"claim": row["claim"], "evidence": row["evidence"], "platform": platform}
                link("claims", f"{row['badge']} {row['claim']}", **view)
                decides = markdown(f"{row['source'].capitalize()}: {row['decides']}")
                st.markdown(f"{row['statement']}  \n:small[:gray[{decides}]]")
    with st.expander("As a table"):
        _table(chosen.rows)


def _rows(verdicts: Sequence[Judged]) -> pd.DataFrame:
    """A row for each verdict."""
    return pd.DataFrame(
        {
            "claim": [verdict.id for verdict in verdicts],
            "verdict": [verdict.finding.verdict for verdict in verdicts],
            "badge": [verdict_badge(verdict) for verdict in verdicts],
            "shown": [f"{MARKS[verdict.finding.verdict]} {verdict.finding.verdict}" for verdict in verdicts],
            "evidence": [verdict.evidence for verdict in verdicts],
            "decides": [
                in_words(verdict.finding.decides) if verdict.finding.decides else "no number decides it yet"
                for verdict in verdicts
            ],
            "source": [verdict.claim.source for verdict in verdicts],
            "statement": [verdict.claim.statement for verdict in verdicts],
        }
    )


def _table(rows: pd.DataFrame) -> None:
    """Show the table of claims; choosing a row opens its details."""
    st.dataframe(
        rows.reset_index(drop=True),
        hide_index=True,
        height="content",
        column_order=["claim", "shown", "evidence", "decides", "source", "statement"],
        column_config={
            "claim": st.column_config.TextColumn(width=column_width(rows["claim"])),
            "shown": st.column_config.TextColumn("verdict", width=130),
            "decides": st.column_config.TextColumn("deciding number", width="large"),
            "statement": st.column_config.TextColumn("finding of the study", width="large"),
        },
        on_select=lambda: _open(rows),
        selection_mode="single-row",
        key="claims",
        alt=f"Table of {len(rows)} verdicts on claims",
    )


def _open(rows: pd.DataFrame) -> None:
    for place in st.session_state["claims"]["selection"]["rows"]:
        st.query_params[Key.CLAIM] = rows["claim"].iloc[place]
        st.query_params[Key.EVIDENCE] = rows["evidence"].iloc[place]


METRICS = {"speed": "speedup", "accuracy": "accuracy", "commits": "commits"}  # for Explore; others show causes
MOST = 3  # other platforms whose verdicts a page shows; the page says how many more there are


def show_detail(of_kinds: Sequence[Judged], study: Study, platform: str) -> None:
    """Show one claim by one kind of evidence; kinds with runs come first."""
    by_availability = sorted(of_kinds, key=lambda verdict: verdict.machine is None)
    kinds = Filter(Key.EVIDENCE, "Evidence", tuple(verdict.evidence for verdict in by_availability))
    evidence = choose([PLATFORM, kinds], study.counts, study.platform_names, defaults=study.first).one(Key.EVIDENCE)
    shown = next(verdict for verdict in by_availability if verdict.evidence == evidence)
    claim, finding = shown.claim, shown.finding
    link("claims", "All claims", platform=platform)
    st.subheader(claim.statement)
    st.markdown(f"{badge(finding.verdict)} by **{evidence}** runs. Source: the study's {claim.source}.")
    if figures := load_originals().figures_of(claim.source):
        with st.container(horizontal=True):
            for figure in figures:
                link("figures", f"Figure {figure}", figure=figure, platform=platform)
    st.markdown("#### What the runs say")
    for number, (check, verdict) in enumerate(zip(claim.checks, finding.checks, strict=False), 1):
        _check(shown, check, verdict, number, study)
    if not finding.checks:
        st.info(markdown(finding.why))
    st.markdown("#### Evidence needed for a decision")
    st.markdown(markdown(needed_evidence(shown)))
    if finding.verdict in ("inconclusive", "untested"):
        _command(claim, finding)
    if claim.explanation:
        st.markdown(f"#### Explanation\n{claim.explanation}")
    st.markdown("#### Runs used")
    _runs(shown, platform)
    st.markdown("#### Other evidence and platforms")
    _others(shown, of_kinds, study, platform)
    st.markdown("#### Cite it")
    st.code(_citation(shown, study, platform), language=None, wrap_lines=True)


def _check(shown: Judged, check: Check, finding: Finding, number: int, study: Study) -> None:
    """Show one check: its verdict, the reason, and its numbers and tolerance as chart and table."""
    among = len(shown.claim.checks)
    which = f" {number} of {among}" if among > 1 else ""
    st.markdown(f"**Check{which}: {check.place}, {check.predicate.measure}** {badge(finding.verdict)}")
    st.markdown(markdown(finding.why))
    if not finding.numbers:
        return
    figure = chart.figure(shown, finding, f"{shown.claim.source}: {check.place}", study.revision)
    st.vega_lite_chart(figure.drawn, width="stretch", height=chart.height(finding))
    show_caption(slug("claim", shown.id, shown.evidence, str(number)), figure)
    with st.expander("The numbers"):
        st.dataframe(
            figure.summary.drop(columns=["experiment"]), hide_index=True, alt=f"Numbers of the check of {check.place}"
        )


def _command(claim: Claim, finding: Finding) -> None:
    if finding.more_rounds is not None:
        st.caption(
            "Raise `rounds_at_most` of the experiment in config.yaml by that number, then run in the project's folder:"
        )
    else:
        st.caption("In the project's folder, on such a machine:")
    show_commands(*(rerun(name) for name in claim.experiments()))


def _runs(shown: Judged, platform: str) -> None:
    """Show the number of runs, links to them, and the runs left out."""
    drawn = shown.as_json()["runs"]
    odd = f", {drawn['disturbed']} of them disturbed and {drawn['resumed']} resumed" if drawn["n"] else ""
    st.markdown(f"{several(drawn['n'], 'run')}{odd}.")
    for name, check in {check.place: check for check in shown.claim.checks}.items():
        view = {"experiment": check.experiment, "scale": "full", "platform": platform, "evidence": shown.evidence}
        view |= {factor: str(value) for factor, value in check.where.items()}
        link("runs", f"Runs of {name}", **view)
        link("explore", f"Explore {name}", metric=METRICS.get(check.predicate.measure.name, "causes"), **view)
    if shown.left_out:
        st.markdown("Left out, because different definitions or software versions are never pooled:")
    for origin in shown.left_out:
        text = (
            f"{len(origin.runs)} runs of {origin.experiment} by {origin.software}, definition {origin.definition[:10]}"
        )
        st.markdown(f"- {markdown(text)}")
    if not shown.left_out and shown.machine:
        st.caption("No run of this machine was left out because of its definition or software version.")


def _others(shown: Judged, of_kinds: Sequence[Judged], study: Study, platform: str) -> None:
    for verdict in of_kinds:
        if verdict.evidence != shown.evidence:
            link(
                "claims",
                f"{verdict_badge(verdict)} on this platform",
                claim=shown.id,
                evidence=verdict.evidence,
                platform=platform,
            )
    others = [slug for slug in platforms_with_runs(study, shown.claim) if slug != platform]
    for other in others[:MOST]:
        for verdict in load_verdicts(study, other, [shown.id]):
            if verdict.evidence == shown.evidence:
                label = f"{verdict_badge(verdict)} on {markdown(study.platform_names[other])}"
                link("claims", label, claim=shown.id, evidence=shown.evidence, platform=other)
    if len(others) > MOST:
        st.caption(f"{len(others) - MOST} more platforms have runs of these experiments: choose one above.")
    if not others:
        st.caption("No other platform here has runs of these experiments.")


def platforms_with_runs(study: Study, claim: Claim) -> list[str]:
    """The keys of platforms with full-scale runs of a claim's experiments, the one with the most runs first."""
    counts = study.counts
    held = counts[counts["experiment"].isin(claim.experiments()) & (counts["scale"] == "full")]
    return list(held.groupby("platform")["n_runs"].sum().sort_values(ascending=False, kind="stable").index)


def _citation(shown: Judged, study: Study, platform: str) -> str:
    counts = study.counts
    newest = str(counts.loc[counts["platform"] == platform, "newest_run_utc"].max())[:10]
    return (
        f"tmflow, claim {shown.id} ({shown.claim.source}), by {shown.evidence} runs on platform {platform}: "
        f"{shown.finding.verdict}. Database revision {study.revision}, newest run {newest}."
    )
