"""Badges for verdicts and statuses: a mark, a word and a colour; links to verdicts, and counts of runs by status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import pandas as pd
import streamlit as st

from tmflow.claims.origins import Judged, verdicts
from tmflow.claims.render import MARKS
from tmflow.claims.verdict import Verdict
from tmflow.portal.links import link
from tmflow.portal.study_data import Identity, Study

COLOURS: dict[Verdict, str] = {
    "holds here": "green", "does not hold here": "red", "inconclusive": "orange", "untested here": "gray",
    "cannot be tested": "gray",
}  # fmt: skip


def verdict_badge(verdict: Judged) -> str:
    """The badge of a verdict, with the kind of evidence unless it is measured."""
    word, by = verdict.finding.verdict, "" if verdict.evidence == "measured" else f", {verdict.evidence}"
    return badge(word, by)


def count_badges(verdicts: Sequence[Judged]) -> str:
    """The Markdown of a badge for each verdict and kind of evidence, with the number of claims if there are several."""
    counted = Counter((verdict.finding.verdict, verdict.evidence) for verdict in verdicts)
    by = {key: "" if key[1] == "measured" else f", {key[1]}" for key in counted}
    return " ".join(badge(key[0], by[key] + (f" {n}" if n > 1 else "")) for key, n in counted.items())


def badge(verdict: Verdict, by: str = "") -> str:
    """The Markdown of a badge, with `by` after the verdict."""
    return f":{COLOURS[verdict]}-badge[{MARKS[verdict]} {verdict}{by}]"


def link_verdict(verdict: Judged, platform: str, label: str) -> None:
    """Show a link to the details of a verdict on a platform, with its badge."""
    view = {"claim": verdict.id, "evidence": verdict.evidence, "platform": platform}
    link("claims", f"{verdict_badge(verdict)} {label}", **view)


def show_claim(verdict: Judged, platform: str) -> None:
    """Show a claim's statement with its verdict, as a link to its details."""
    link_verdict(verdict, platform, verdict.claim.statement)


def load_verdicts(study: Study, platform: str | None = None, claims: Sequence[str] | None = None) -> list[Judged]:
    """The verdicts by every kind of evidence, from the runs of one platform (by key) or of all; cached.

    claims: judge only these claims and read only their runs.
    """
    state = study.state() if platform is None else study.state(platform=platform)
    return _load_verdicts(study, state, platform, None if claims is None else tuple(claims))


# Shared by all sessions without a copy: no caller modifies a verdict.
@st.cache_resource(show_spinner="Judging the claims", max_entries=48)
def _load_verdicts(
    _study: Study, state: Identity, platform: str | None, claims: tuple[str, ...] | None
) -> list[Judged]:
    return verdicts(_study.reader(), platform=platform, claims=claims, joined=_study.joined)


# Marks and colours of statuses.
_STATUSES: dict[str, tuple[str, Literal["green", "red", "orange", "gray"]]] = {
    "ok": ("✓", "green"), "failed": ("✗", "red"), "timeout": ("◷", "orange"), "invalid": ("!", "orange"),
    "unsupported": ("∅", "gray"),
}  # fmt: skip
WORDS = {status: f"{mark} {status}" for status, (mark, _) in _STATUSES.items()}


def status_badge(status: str, n_runs: int | None = None) -> None:
    """Show the badge of a status, with the number of runs if given."""
    mark, colour = _STATUSES[status]
    count = "" if n_runs is None else f"{n_runs:,} "
    st.badge(f"{mark} {count}{status}", color=colour)


def count_by_status(counts: pd.DataFrame, where: list[str]) -> pd.DataFrame:
    """Count runs by status, grouped by these columns of `queries.counts`, with the day of the newest run."""
    table = counts.pivot_table(index=where, columns="status", values="n_runs", aggfunc="sum", fill_value=0)
    newest = counts.groupby(where)["newest_run_utc"].max().str[:10].rename("newest run")
    return table.join(newest).reset_index()
