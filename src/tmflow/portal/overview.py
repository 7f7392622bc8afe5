"""The tables of the overview: plain functions of the runs, and how they are shown."""

from __future__ import annotations

from typing import Literal

import pandas as pd
import streamlit as st

from tmflow import summaries
from tmflow.point import POINT
from tmflow.portal.data import Identity
from tmflow.portal.show import width_of
from tmflow.variants import variants

NAMES = ("experiment", "strategy")
WHERE = ["experiment", "scale", "platform_name", "evidence", "dataset"]


def counts(runs: pd.DataFrame) -> dict[str, int]:
    """How much there is of what."""
    rounds = runs[["campaign_uid", "experiment", "round"]].drop_duplicates()
    return {
        "Experiments": runs["experiment"].nunique(),
        "Platforms": runs["platform"].nunique(),
        "Rounds": len(rounds),
        "Runs": len(runs),
        "Without result": int((runs["status"] != "ok").sum()),
    }


def say_if_quick(runs: pd.DataFrame) -> None:
    """Call quick scale what it is."""
    if "full" not in set(runs["scale"]):
        st.warning(
            "**Quick scale.** All that is here comes from `make quick` or from ad hoc runs: few rounds and steps, to "
            "see that everything works. Nothing can be concluded from it; `make study` runs the study in full."
        )
    elif "quick" in set(runs["scale"]):
        st.info("Some runs are of **quick scale**: they show that everything works, and are kept apart from the rest.")


@st.cache_data(show_spinner=False, max_entries=2)
def headline(_runs: pd.DataFrame, identity: Identity) -> pd.DataFrame:
    """For each strategy of each experiment its speedup and accuracy at the highest threads not oversubscribed.

    Runs measured in full are left out: they would stand beside others whose time has no such cost in it. `identity` is
    that of the database that the runs are from.
    """
    usual = _runs[_runs["measures"] == "usual"]
    speedup = summaries.headline(summaries.speedup(usual))
    both = speedup.merge(summaries.accuracy(usual), on=list(POINT), suffixes=("", "_accuracy"))
    table = both[["experiment", "driver", "strategy", "threads"]].copy()
    for _, rows in both.groupby("experiment"):
        table.loc[rows.index, "strategy"] = variants(rows)
    table["speedup"] = _intervals(both, "", "{:.2f}")
    table["accuracy"] = _intervals(both, "_accuracy", "{:.3f}")
    table["rounds"] = both[["rounds", "rounds_accuracy"]].max(axis="columns")
    table["note"] = both["reason"].fillna("")
    table[WHERE[1:]] = both[WHERE[1:]]
    return table if table["note"].any() else table.drop(columns="note")


def holdings(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs by where they belong and how they ended."""
    table = runs.pivot_table(index=WHERE, columns="status", values="uid", aggfunc="count", fill_value=0)
    rounds = runs.groupby(WHERE)["round"].nunique().rename("rounds")
    newest = runs.groupby(WHERE)["started_at_utc"].max().rename("newest run")
    table = table.join(rounds).join(newest).reset_index()
    return table[[*WHERE[:2], *(column for column in table if column not in WHERE), *WHERE[2:]]]


def table(rows: pd.DataFrame, alt: str) -> None:
    """A table as it stands, without an index; a long one scrolls."""
    height: Literal["content", "auto"] = "content" if len(rows) <= 24 else "auto"
    st.dataframe(
        rows.rename(columns={"platform_name": "platform"}),
        hide_index=True,
        height=height,
        column_config={
            **{name: st.column_config.TextColumn(width=width_of(rows[name])) for name in NAMES if name in rows},
            "note": st.column_config.TextColumn(width="medium"),
        },
        alt=alt,
    )


def _intervals(rows: pd.DataFrame, suffix: str, form: str) -> list[str]:
    """Estimates with their bounds, as text; one round has no bounds, and that is said; what is missing is a dash."""
    columns = (rows[f"{name}{suffix}"] for name in ("estimate", "low", "high"))
    return [_interval(form, *row) for row in zip(*columns, strict=True)]


def _interval(form: str, estimate: float, low: float, high: float) -> str:
    if pd.isna(estimate):
        return "–"
    bounds = "one round, no interval" if pd.isna(low) else f"{form.format(low)} to {form.format(high)}"
    return f"{form.format(estimate)} ({bounds})"
