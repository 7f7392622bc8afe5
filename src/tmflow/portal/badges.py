"""The verdicts on all claims, as pages show them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from sqlalchemy import URL

from tmflow.claims.judge import Judged, verdicts
from tmflow.claims.render import MARKS
from tmflow.claims.verdict import Verdict
from tmflow.portal.study_data import Identity, Study
from tmflow.store import engine

COLOURS: dict[Verdict, str] = {
    "reproduced": "green", "contradicted": "red", "inconclusive": "orange", "untested": "gray",
}  # fmt: skip


def marked(verdict: Judged) -> str:
    """A verdict as a badge: colour, mark and word, and by which evidence unless that is the usual one."""
    word, by = verdict.finding.verdict, "" if verdict.evidence == "measured" else f", {verdict.evidence}"
    return badge(word, by)


def badge(verdict: Verdict, by: str = "") -> str:
    """A verdict as Markdown, and what comes after it."""
    return f":{COLOURS[verdict]}-badge[{MARKS[verdict]} {verdict}{by}]"


def judged(study: Study, platform: str | None = None, claims: Sequence[str] | None = None) -> list[Judged]:
    """By every kind of evidence, from the runs of one platform, by its key, or of all; kept until the data changes.

    claims: on these alone, which reads their runs alone.
    """
    state = study.state() if platform is None else study.state(platform=platform)
    return _judged(study.url, state, platform, None if claims is None else tuple(claims), study.joined)


# Kept as it is, for all sessions: nobody changes a verdict.
@st.cache_resource(show_spinner="Judging the claims", max_entries=48)
def _judged(
    _url: URL, state: Identity, platform: str | None, claims: tuple[str, ...] | None, joined: bool
) -> list[Judged]:
    return verdicts(engine.open_reader(_url), platform=platform, claims=claims, joined=joined)
