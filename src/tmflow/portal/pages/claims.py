"""The page of claims: the table of all of them, and each one in full."""

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
from tmflow.claims.render import MARKS, counted, without_runs, would_decide
from tmflow.claims.schema import Claim
from tmflow.claims.verdict import Finding, in_words
from tmflow.portal.badges import badge, judged, marked
from tmflow.portal.figure_view import show_under, width_of
from tmflow.portal.links import halves, link, show_commands
from tmflow.portal.study_data import Study
from tmflow.portal.url_state import PLATFORM, Filter, Key, choose
from tmflow.study.commands import rerun

INTRODUCTION = (
    "Each finding of the 2017 study, held against the runs of one platform, by each kind of evidence apart. "
    "**Reproduced**: every part of it is shown to hold. **Contradicted**: some part is shown not to. **Inconclusive**: "
    "neither yet. **Untested**: a run or a machine is missing."
)
OF = (
    Filter(Key.VERDICT, "Verdict", several=True, with_all=True),
    Filter(Key.EVIDENCE, "Evidence", several=True, with_all=True),
)


def listing(judged: Sequence[Judged], study: Study, platform: str) -> None:
    """All claims: a link to the page of each, and a table to sort and to keep."""
    st.markdown(INTRODUCTION)
    without = without_runs(judged)
    told = [its for its in judged if its.evidence not in without]
    choose([PLATFORM], study.counts, study.platform_names, defaults=study.first)
    st.caption(markdown(heading(study.reader(), platform, joined=study.joined)))
    chosen = choose(OF, _rows(told))
    counts = [f"{kind}: {counted(told, kind)}." for kind in KINDS if any(its.evidence == kind for its in told)]
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


def _rows(judged: Sequence[Judged]) -> pd.DataFrame:
    """A row for each verdict."""
    return pd.DataFrame(
        {
            "claim": [its.id for its in judged],
            "verdict": [its.finding.verdict for its in judged],
            "badge": [marked(its) for its in judged],
            "shown": [f"{MARKS[its.finding.verdict]} {its.finding.verdict}" for its in judged],
            "evidence": [its.evidence for its in judged],
            "decides": [
                in_words(its.finding.decides) if its.finding.decides else "no number decides it yet" for its in judged
            ],
            "source": [its.claim.source for its in judged],
            "statement": [its.claim.statement for its in judged],
        }
    )


def _table(rows: pd.DataFrame) -> None:
    """Choosing a row opens its page."""
    st.dataframe(
        rows.reset_index(drop=True),
        hide_index=True,
        height="content",
        column_order=["claim", "shown", "evidence", "decides", "source", "statement"],
        column_config={
            "claim": st.column_config.TextColumn(width=width_of(rows["claim"])),
            "shown": st.column_config.TextColumn("verdict", width=130),
            "decides": st.column_config.TextColumn("the number that decides", width="large"),
            "statement": st.column_config.TextColumn("what the study found", width="large"),
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


METRICS = {"speed": "speedup", "accuracy": "accuracy", "commits": "commits"}  # of Explore; of the rest, causes
MOST = 3  # other platforms that are judged on a page; how many more there are is told


def detail(of_kinds: Sequence[Judged], study: Study, platform: str) -> None:
    """One claim by one of the kinds of evidence that it takes, those first that there are runs of."""
    spoken = sorted(of_kinds, key=lambda its: its.machine is None)
    kinds = Filter(Key.EVIDENCE, "Evidence", tuple(its.evidence for its in spoken))
    evidence = choose([PLATFORM, kinds], study.counts, study.platform_names, defaults=study.first).one(Key.EVIDENCE)
    shown = next(its for its in spoken if its.evidence == evidence)
    claim, finding = shown.claim, shown.finding
    link("claims", "All claims", platform=platform)
    st.subheader(claim.statement)
    st.markdown(f"{badge(finding.verdict)} by **{evidence}** runs. Source: the study's {claim.source}.")
    if figures := load_originals().named(claim.source):
        with st.container(horizontal=True):
            for figure in figures:
                link("figures", f"Figure {figure}", figure=figure, platform=platform)
    st.markdown("#### What the runs say")
    for number, (check, its) in enumerate(zip(claim.checks, finding.checks, strict=False), 1):
        _check(shown, check, its, number, study)
    if not finding.checks:
        st.info(markdown(finding.why))
    st.markdown("#### What would decide it")
    st.markdown(markdown(would_decide(shown)))
    if finding.verdict in ("inconclusive", "untested"):
        _command(claim, finding)
    if claim.explanation:
        st.markdown(f"#### Our explanation\n{claim.explanation}")
    st.markdown("#### The runs that it draws on")
    _runs(shown, platform)
    st.markdown("#### By other evidence, and elsewhere")
    _others(shown, of_kinds, study, platform)
    st.markdown("#### Cite it")
    st.code(_citation(shown, study, platform), language=None, wrap_lines=True)


def _check(shown: Judged, check: Check, finding: Finding, number: int, study: Study) -> None:
    """One check: its verdict, why, and its numbers with their tolerance as chart and table."""
    among = len(shown.claim.checks)
    which = f" {number} of {among}" if among > 1 else ""
    st.markdown(f"**Check{which}: {check.place}, {check.predicate.measure}** {badge(finding.verdict)}")
    st.markdown(markdown(finding.why))
    if not finding.numbers:
        return
    figure = chart.figure(shown, finding, f"{shown.claim.source}: {check.place}", study.revision)
    st.vega_lite_chart(figure.drawn, width="stretch", height=chart.height(finding))
    show_under(slug("claim", shown.id, shown.evidence, str(number)), figure)
    with st.expander("The numbers"):
        st.dataframe(
            figure.summary.drop(columns=["experiment"]), hide_index=True, alt=f"Numbers of the check of {check.place}"
        )


def _command(claim: Claim, finding: Finding) -> None:
    if finding.more_rounds is not None:
        st.caption(
            "Raise `rounds_at_most` of the experiment in config.yaml by that number, then, in the project's folder:"
        )
    else:
        st.caption("In the project's folder, on such a machine:")
    show_commands(*(rerun(name) for name in claim.experiments()))


def _runs(shown: Judged, platform: str) -> None:
    """How many runs, links to them, and what was left out."""
    drawn = shown.as_json()["runs"]
    odd = f", {drawn['disturbed']} of them disturbed and {drawn['resumed']} resumed" if drawn["n"] else ""
    st.markdown(f"{several(drawn['n'], 'run')}{odd}.")
    for name, check in {check.place: check for check in shown.claim.checks}.items():
        view = {"experiment": check.experiment, "scale": "full", "platform": platform, "evidence": shown.evidence}
        view |= {factor: str(value) for factor, value in check.where.items()}
        link("runs", f"Runs of {name}", **view)
        link("explore", f"Explore {name}", metric=METRICS.get(check.predicate.measure.name, "causes"), **view)
    if shown.left_out:
        st.markdown("Left out, for runs of two definitions or by two states of the software are never pooled:")
    for origin in shown.left_out:
        told = (
            f"{len(origin.runs)} runs of {origin.experiment} by {origin.software}, definition {origin.definition[:10]}"
        )
        st.markdown(f"- {markdown(told)}")
    if not shown.left_out and shown.machine:
        st.caption("No run of this machine was left out for its definition or the software that measured it.")


def _others(shown: Judged, of_kinds: Sequence[Judged], study: Study, platform: str) -> None:
    for its in of_kinds:
        if its.evidence != shown.evidence:
            link("claims", f"{marked(its)} on this platform", claim=shown.id, evidence=its.evidence, platform=platform)
    others = [slug for slug in platforms(study, shown.claim) if slug != platform]
    for other in others[:MOST]:
        for its in judged(study, other, [shown.id]):
            if its.evidence == shown.evidence:
                label = f"{marked(its)} on {markdown(study.platform_names[other])}"
                link("claims", label, claim=shown.id, evidence=shown.evidence, platform=other)
    if len(others) > MOST:
        st.caption(f"{len(others) - MOST} more platforms have runs of its experiments: choose one above.")
    if not others:
        st.caption("No other platform has runs of its experiments here.")


def platforms(study: Study, claim: Claim) -> list[str]:
    """The keys of those with runs of a claim's experiments at full scale, the one with the most runs first."""
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
