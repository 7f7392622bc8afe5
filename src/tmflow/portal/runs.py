"""The list of runs, and one run in full."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from tmflow import summaries
from tmflow.portal.command import train_command
from tmflow.portal.filters import Key
from tmflow.portal.show import show_summary, width_of
from tmflow.runner.runfile import NO_TIME, without_lock_times
from tmflow.shares import shares
from tmflow.variants import variants

COLUMNS = [
    "status", "experiment", "strategy", "threads", "round", "step_time_us", "final_accuracy", "evidence",
    "platform_name", "dataset", "scale", "disturbed", "started_at_utc", "reason", "uid",
]  # fmt: skip
HEADINGS = {
    "n": "aborts", "raw_code": "raw code", "sections": "critical sections",
    "expected": "updates of elements", "lost": "of these lost",
    "lock_waited_s": "waited for locks (s)", "lock_held_s": "held locks (s)",
}  # fmt: skip


def listing(runs: pd.DataFrame, total: int) -> None:
    """A sortable table; choosing a row puts its uid into the URL."""
    runs = runs.sort_values("started_at_utc", ascending=False, kind="stable").reset_index(drop=True)
    st.caption(f"{len(runs)} of {total} runs, newest first. Choose a row to see its run in full below.")
    rows = runs.assign(step_time_us=1e6 * runs["loop_s"] / runs["iterations"])
    rows["strategy"] = variants(rows)
    st.dataframe(
        rows[COLUMNS],
        hide_index=True,
        column_config={
            "status": st.column_config.TextColumn(width=100),
            "step_time_us": st.column_config.NumberColumn("time per step (µs)", format="%.1f"),
            "final_accuracy": st.column_config.NumberColumn("accuracy", format="%.4f"),
            **{name: st.column_config.TextColumn(width=width_of(rows[name])) for name in ("experiment", "strategy")},
            "platform_name": "platform",
            "started_at_utc": "started (UTC)",
        },
        on_select=lambda: _open(runs["uid"]),
        selection_mode="single-row",
        key="rows",
        alt=f"Table of {len(runs)} runs",
    )
    st.download_button(
        "CSV of these runs",
        lambda: runs.to_csv(index=False),
        file_name="runs.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


def _open(uids: pd.Series) -> None:
    chosen = st.session_state["rows"]["selection"]["rows"]
    if chosen:
        st.query_params[Key.RUN] = uids.iloc[chosen[0]]
    elif Key.RUN in st.query_params:
        del st.query_params[Key.RUN]


def detail(run: Mapping[str, Any], row: pd.DataFrame, revision: str) -> None:
    """One run in full: `run` as `stored.run` tells it, `row` its one row of `queries.runs`."""
    st.header("One run")
    st.caption(f"uid {run['uid']}")
    if run["status"] != "ok":
        st.error(f"**{run['status']}**: {run['reason']}")
    with st.container(horizontal=True):
        for label, value in _results(run).items():
            st.metric(label, value, border=True, width=170)
    if run["evidence"] == "emulated":
        st.caption(f"The hardware transactions of {run['backend']['name']} were emulated: {NO_TIME}.")
    st.subheader("Repeat it")
    st.code(train_command(run["spec"], run["round"]), language="shell", wrap_lines=True)
    st.subheader("What ran, and where it comes from")
    origin = {name: run[name] for name in ("evidence", "ordinal", "resumed", "trial_seed", "started_at_utc")}
    for title, facts in {
        "Factors": run["spec"],
        **({"Emulated machine": _flat(run["backend"])} if run["backend"] else {}),
        "Origin": {**run["experiment"], **run["campaign"], "round": run["round"], **origin, **run["stored"]},
        "Software": run["software"],
        "State of the machine": run["machine"],
        "Platform": run["platform"],
        "Environment": run["environment"],
    }.items():
        with st.expander(title, expanded=title == "Factors"):
            _facts(title, facts)
    timed = run["counters"] if run["evidence"] != "emulated" else without_lock_times(run["counters"])
    for title, rows in {
        "Counters": timed,
        "Aborts": run["aborts"],
        "Lost updates": run["lost"],
        "Reads": run["reads"],
        "Retries": run["retries"],
    }.items():
        if rows:
            st.subheader(title)
            found = pd.DataFrame(rows).dropna(axis="columns", how="all")
            st.dataframe(
                found.rename(columns=HEADINGS), hide_index=True, alt=f"{title} of the run by worker and variable"
            )
    for kind, summarise in (("curve", summaries.curve), ("staleness", summaries.staleness)):
        if run[kind] and run["status"] == "ok":
            show_summary(kind, summarise(row, pd.DataFrame(run[kind]).assign(uid=run["uid"])), revision)


def _results(run: Mapping[str, Any]) -> dict[str, str]:
    """The headline numbers that the run has. An emulated run shows no time."""
    times = {} if run["evidence"] == "emulated" else {"Loop": run["loop_s"], "Set-up": run["setup_s"]}
    shown = {label: _seconds(value) for label, value in times.items() if value is not None}
    if "Loop" in shown:
        shown["Time per step"] = f"{1e6 * run['loop_s'] / run['spec']['iterations']:.1f} µs"
    if run["final_accuracy"] is not None:
        shown["Accuracy"] = f"{run['final_accuracy']:.4f}"
    found = {name.capitalize(): f"{share:.2%}" for name, share in shares(run).items()}
    return {"Status": run["status"], **shown, **found}


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 0.1 else f"{1e3 * value:.3g} ms"


def _flat(backend: Mapping[str, Any]) -> dict[str, Any]:
    """A backend with its numbers beside its name."""
    return {**backend["config"], **{name: value for name, value in backend.items() if name != "config"}}


def _facts(title: str, facts: Mapping[str, Any] | None) -> None:
    if not facts:
        st.caption("Not recorded.")
        return
    rows = [(name, _text(value)) for name, value in facts.items()]
    st.dataframe(
        pd.DataFrame(rows, columns=["name", "value"]), hide_index=True, height="content", alt=f"{title} of the run"
    )


def _text(value: Any) -> str:
    """A value as text; what could not be read, or does not apply, is a dash."""
    if value is None:
        return "–"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
