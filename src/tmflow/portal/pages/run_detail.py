"""The page of one run: its results, measurements, configuration and origin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from pydantic import ValidationError

from tmflow.analysis import summaries
from tmflow.base.canonical_json import leaves
from tmflow.base.documents import sentence
from tmflow.base.errors import BadInput
from tmflow.base.text import csv_frame, from_to, markdown, workers
from tmflow.charts import stacked_bars
from tmflow.platform.facts import slug_of
from tmflow.portal.badges import status_badge
from tmflow.portal.figure_view import AT_ONCE, show_drawing, show_frame, show_summary
from tmflow.portal.filter_widgets import go_to, sources_joined, warn_unknown
from tmflow.portal.links import download, link, show_commands, show_permanent_link
from tmflow.portal.study_data import Study, title_of_experiment
from tmflow.portal.url_state import Key
from tmflow.runfile import record
from tmflow.runfile.record import MOST_COUNTED, NO_TIME, shares, without_lock_times
from tmflow.spec.factors import ADVISED_DRIVERS
from tmflow.spec.strategies import CONTENTION, kind_of_retries
from tmflow.store import queries
from tmflow.store import run_detail as stored
from tmflow.store.run_filter import RunFilter
from tmflow.study.campaign import advise_command, train_command

HEADINGS = {
    "n": "aborts", "raw_code": "raw code", "sections": "critical sections",
    "failed_publications": "failed publications", "taken_blocks": "taken blocks",
    "expected": "updates of elements", "lost": "of these lost", "inconsistent": "inconsistent elements",
    "lock_waited_s": "waited for locks (s)", "lock_held_s": "held locks (s)",
}  # fmt: skip
OF_PROCESSES = {
    "role": "role", "index": "index", "host": "host", "steps": "steps", "loop_s": "own loop time (s)",
    "cpu_s": "processor time (s)", "exit": "exit",
}  # fmt: skip
CONTENTION_TITLES = {
    "retries": "Retries of critical sections",
    "failed_publications": "Failed publications of updates",
    "taken_blocks": "Taken blocks met by updates",
}
Run = Mapping[str, Any]
"""A run in the layout of a run file, as from `store.run_detail.run`."""


def show_run(study: Study, uid: str | None) -> bool:
    """Show the run with this uid; if there is none, warn and return False."""
    if uid is None:
        return False
    try:
        run = stored.run(study.reader(), uid)
    except BadInput:
        warn_unknown("run", uid, "which is not in this database.")
        return False
    _show_navigation(*queries.neighbours(study.reader(), uid))
    _show_head(run)
    st.subheader("Repeat this run")
    spec, definition = run["spec"], run["experiment"]["definition"]
    advised = spec["driver"] in ADVISED_DRIVERS
    show_commands(advise_command(spec, definition) if advised else train_command(spec, run["round"]))
    if run["processes"]:
        _show_processes(run["processes"])
    if run["phases"]:
        _show_phases(run["phases"])
    emulated = run["evidence"] == "emulated"
    lists = {
        "Counters": without_lock_times(run["counters"]) if emulated else run["counters"],
        "Aborts": run["aborts"],
        "Lost updates": run["lost"],
        "Reads": run["reads"],
        **_contention(run),
    }
    for title, rows in lists.items():
        if rows:
            st.subheader(title)
            table = pd.DataFrame(rows).dropna(axis="columns", how="all").rename(columns=HEADINGS)
            show_frame(table, f"{title} of the run by worker and variable", width="content", height="auto")
            if title in CONTENTION_TITLES.values():
                st.caption(f"{MOST_COUNTED} stands for that many or more.")
    row = queries.runs(study.reader(), RunFilter(uids=[uid]))
    for kind, summarise in (("curve", summaries.curve), ("staleness", summaries.staleness)):
        if run[kind] and run["status"] == "ok":
            show_summary(kind, summarise(row, pd.DataFrame(run[kind]).assign(uid=uid)), study.revision)
    _show_origin(run)
    with st.container(horizontal=True):
        for label, text in (("JSON", run_json(run)), ("CSV", run_csv(run))):
            download(f"{label} of this run", text, f"run-{uid}.{label.lower()}")
    return True


def _show_navigation(before: str | None, after: str | None) -> None:
    """Show buttons back to the search, and to the same point in the previous and the next round."""
    with st.container(horizontal=True):
        st.button("All runs", icon=":material/arrow_upward:", on_click=go_to, args=({}, [Key.RUN]))
        for label, icon, uid in (("Round before", "back", before), ("Round after", "forward", after)):
            if uid:
                st.button(label, icon=f":material/arrow_{icon}:", on_click=go_to, args=({Key.RUN: [uid]}, [Key.RUN]))


def _show_head(run: Run) -> None:
    """Show the title of the run, its status and reason, its results, and its permanent link."""
    spec, experiment = run["spec"], run["experiment"]
    trial = f"round {run['round']}" + (f", repeat {run['repeat']}," if run["repeat"] > 1 else "")
    st.header(
        f"{markdown(spec['strategy'])} with {workers(spec['threads'])}, {trial} of "
        f"{markdown(title_of_experiment(experiment['name']))}"
    )
    if run["status"] != "ok":
        st.error(f"**{run['status']}**: {markdown(run['reason'])}")
    with st.container(horizontal=True):
        status_badge(run["status"])
        st.badge(run["evidence"], color="blue")
        if experiment["scale"] != "full":
            st.badge(f"{experiment['scale']} scale", color="orange")
        if run["machine"] and run["machine"]["disturbed"]:
            st.badge("disturbed: other processes used the machine", color="orange")
    if results := _results(run):
        with st.container(horizontal=True):
            for label, value in results.items():
                st.metric(label, value, border=True, width=170)
    if run["evidence"] == "emulated":
        name = markdown(run["backend"]["name"])
        st.caption(f"The hardware transactions of {name} were emulated: {NO_TIME}.")
    show_permanent_link("Permanent link of this run", {str(Key.RUN): run["uid"]})


def _results(run: Run) -> dict[str, str]:
    """The main results of the run. An emulated run shows no time."""
    times = {} if run["evidence"] == "emulated" else {"Loop": run["loop_s"], "Set-up": run["setup_s"]}
    results = {label: seconds(value) for label, value in times.items() if value is not None}
    if "Loop" in results and run["status"] == "ok":
        results["Time per step"] = seconds(run["loop_s"] / run["spec"]["iterations"])
    if run["final_accuracy"] is not None:
        results["Accuracy"] = f"{run['final_accuracy']:.4f}"
    return results | {name.capitalize(): f"{share:.2%}" for name, share in shares(run).items()}


def seconds(value: float) -> str:
    """Format a time in s, ms or µs."""
    if value >= 0.1:
        return f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} µs"


def _show_processes(processes: Sequence[Mapping[str, Any]]) -> None:
    """Show the servers and workers of a cluster."""
    st.subheader("Processes")
    table = pd.DataFrame(processes)[[*OF_PROCESSES]].astype({"index": "Int64", "steps": "Int64", "exit": "Int64"})
    show_frame(
        table.rename(columns=OF_PROCESSES), "Processes of the run", width="content", height="auto", placeholder="–"
    )
    st.caption(
        "A server holds variables, a worker computes gradients. A worker's loop time is by its own clock, without the "
        "pauses; processor time includes set-up and evaluation. Exit is the code, or a negative signal; without it, "
        "the process served to the end."
    )


def _show_phases(phases: Sequence[Mapping[str, Any]]) -> None:
    """Show a stacked bar of the phases of each worker's step."""
    st.subheader("Where the time of a step goes")
    rows = pd.DataFrame(phases)
    first = rows[rows["worker"].isin(rows["worker"].unique()[:AT_ONCE])]
    means = first.assign(estimate=1e6 * first["seconds"], bar=[f"worker {worker}" for worker in first["worker"]])
    show_drawing("phases of the run", stacked_bars.draw(means, "bar", ["samples"]).to_dict())
    left_out = "" if len(first) == len(rows) else f" The files of this run have the workers beyond the first {AT_ONCE}."
    st.caption(
        f"Mean of {from_to(rows['samples'].min(), rows['samples'].max(), 'traced step')} of each worker, from "
        "TensorFlow's own trace. Where phases overlap, the time is that of the first of: apply, compute, send, "
        f"receive, queue. Traced steps take longer than others.{left_out}"
    )


def _contention(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The contention of updates, by title; the strategy determines what `retries` counts."""
    kinds = {kind: kind for kind in CONTENTION} | {"retries": kind_of_retries(run["spec"]["strategy"])}
    lists: dict[str, list[dict[str, Any]]] = {}
    for name, kind in kinds.items():
        renamed = {name: kind, CONTENTION[name]: CONTENTION[kind]}
        rows = [{renamed.get(column, column): value for column, value in row.items()} for row in run[name]]
        lists.setdefault(CONTENTION_TITLES[kind], []).extend(rows)
    return lists


def _show_origin(run: Run) -> None:
    """Show the factors of the run and its origin."""
    st.subheader("Configuration and origin")
    in_database, backend = run["stored"], dict(run["backend"] or {})
    key = in_database["platform"]
    platform = slug_of(key) if sources_joined() else key
    link("platforms", f"Platform {markdown(in_database['platform_name'])}", platform=platform)
    origin = {
        name: run[name]
        for name in ("round", "repeat", "evidence", "ordinal", "resumed", "trial_seed", "started_at_utc")
    }
    campaign = {f"campaign {name}" if name == "uid" else name: value for name, value in run["campaign"].items()}
    for title, facts in {
        "Factors": {name: value for name, value in run["spec"].items() if value is not None},
        **({"Emulated machine": backend.pop("config") | backend} if backend else {}),
        "Origin": {**run["experiment"], **campaign, **origin, **in_database},
        "Software": run["software"],
        "State of the machine": run["machine"],
        "Platform": run["platform"],
        "Environment": run["environment"],
    }.items():
        with st.expander(title, expanded=title in ("Factors", "Origin")):
            if facts:
                rows = [(name, _text(value)) for name, value in facts.items()]
                table = pd.DataFrame(rows, columns=["name", "value"])
                show_frame(table, f"{title} of the run", height="content")
            else:
                st.caption("Not recorded.")


def _text(value: Any) -> str:
    """Format a value; unreadable and inapplicable values become a dash."""
    if value is None:
        return "–"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def run_json(run: Mapping[str, Any]) -> str:
    """Format a stored run as JSON in the layout of its run file; an emulated run has a note instead of its times."""
    return json.dumps(_public_fields(run), indent=1, allow_nan=False)


def run_csv(run: Mapping[str, Any]) -> str:
    """Format a stored run as CSV lines of name and value, such as counters.0.updates,500."""
    table = pd.DataFrame(leaves(_public_fields(run)), columns=["name", "value"], dtype=object)
    return csv_frame(table).to_csv(index=False)


def _public_fields(run: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the run's files. Raises BadInput for values that no run file has: somebody changed the database."""
    try:
        return record.shown(record.Run.model_validate({name: run[name] for name in run if name != "stored"}))
    except ValidationError as error:
        raise sentence(error, f"run {run['uid']} of the database") from error
