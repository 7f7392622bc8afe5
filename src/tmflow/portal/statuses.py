"""How the portal tells a status, by a mark and a word, the colour only adding to them; and how many runs have which."""

from __future__ import annotations

from typing import Literal

import pandas as pd
import streamlit as st

_MARKS = {"ok": "✓", "failed": "✗", "timeout": "◷", "invalid": "!", "unsupported": "∅"}
_COLOURS: dict[str, Literal["green", "red", "orange", "gray"]] = {
    "ok": "green", "failed": "red", "timeout": "orange", "invalid": "orange", "unsupported": "gray",
}  # fmt: skip

WORDS = {status: f"{mark} {status}" for status, mark in _MARKS.items()}


def badge(status: str, n_runs: int | None = None) -> None:
    """The status on its colour, with the number of its runs if that is given."""
    count = "" if n_runs is None else f"{n_runs:,} "
    st.badge(f"{_MARKS[status]} {count}{status}", color=_COLOURS[status])


def by_status(counts: pd.DataFrame, where: list[str]) -> pd.DataFrame:
    """How many runs ended how, by these columns of `queries.counts`, and the day of the newest."""
    table = counts.pivot_table(index=where, columns="status", values="n_runs", aggfunc="sum", fill_value=0)
    newest = counts.groupby(where)["newest_run_utc"].max().str[:10].rename("newest run")
    return table.join(newest).reset_index()
