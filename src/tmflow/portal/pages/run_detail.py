"""The details of a run: its results or failure, its files, the command that repeats it, and its origin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from tmflow.analysis import summaries
from tmflow.base import escaping
from tmflow.base import text as wording
from tmflow.base.canonical_json import leaves
from tmflow.base.errors import BadInput
from tmflow.platform.key import slug_of
from tmflow.portal.badges import status_badge
from tmflow.portal.figure_view import show_summary
from tmflow.portal.links import show_commands, with_sources
from tmflow.portal.study_data import Study
from tmflow.portal.url_state import MAX_QUOTED, Key, go_to, sources_joined
from tmflow.runfile import record
from tmflow.runfile.record import NO_TIME, shares, without_lock_times
from tmflow.spec import contention
from tmflow.store import queries, run_detail, search
from tmflow.study.commands import train_command

HEADINGS = {
    "n": "aborts", "raw_code": "raw code", "sections": "critical sections",
    "failed_publications": "failed publications", "taken_blocks": "taken blocks",
    "expected": "updates of elements", "lost": "of these lost",
    "lock_waited_s": "waited for locks (s)", "lock_held_s": "held locks (s)",
}  # fmt: skip

Run = Mapping[str, Any]
"""A run in the layout of a run file, as from `store.run_detail.run`."""


def show_run(study: Study, uid: str | None) -> bool:
    """Show the run with this uid; if there is none, warn and return False."""
    if uid is None:
        return False
    try:
        run = run_detail.run(study.reader(), uid)
    except BadInput:
        st.warning(f"The link asks for run '{escaping.markdown(uid[:MAX_QUOTED])}', which is not in this database.")
        return False
    row = queries.runs(study.reader(), uids=[uid], status=None, all_definitions=True)
    _show_navigation(search.neighbours(study.reader(), uid))
    _head(run)
    _repeat(run)
    _measured(run)
    for kind, summarise in (("curve", summaries.curve), ("staleness", summaries.staleness)):
        if run[kind] and run["status"] == "ok":
            show_summary(kind, summarise(row, pd.DataFrame(run[kind]).assign(uid=uid)), study.revision)
    _origin(run)
    _files(run)
    return True


def _show_navigation(neighbours: tuple[str | None, str | None]) -> None:
    """Show buttons back to the search, and to the same point in the previous and the next round."""
    before, after = neighbours
    with st.container(horizontal=True):
        st.button("All runs", icon=":material/arrow_upward:", on_click=go_to, args=({}, [Key.RUN]))
        if before is not None:
            st.button(
                "Round before", icon=":material/arrow_back:", on_click=go_to, args=({Key.RUN: [before]}, [Key.RUN])
            )
        if after is not None:
            st.button(
                "Round after", icon=":material/arrow_forward:", on_click=go_to, args=({Key.RUN: [after]}, [Key.RUN])
            )


def _head(run: Run) -> None:
    """Show the title of the run, its status and reason, its results, and its permanent link."""
    spec, experiment = run["spec"], run["experiment"]
    st.header(
        f"{escaping.markdown(spec['strategy'])} with {wording.workers(spec['threads'])}, round {run['round']} of "
        f"{escaping.markdown(experiment['name'])}"
    )
    if run["status"] != "ok":
        st.error(f"**{run['status']}**: {escaping.markdown(run['reason'])}")
    with st.container(horizontal=True):
        status_badge(run["status"])
        st.badge(run["evidence"], color="blue")
        if experiment["scale"] != "full":
            st.badge(f"{experiment['scale']} scale", color="orange")
        if run["machine"] and run["machine"]["disturbed"]:
            st.badge("disturbed: other processes used the machine", color="orange")
    results = _results(run)
    if results:
        with st.container(horizontal=True):
            for label, value in results.items():
                st.metric(label, value, border=True, width=170)
    if run["evidence"] == "emulated":
        name = escaping.markdown(run["backend"]["name"])
        st.caption(f"The hardware transactions of {name} were emulated: {NO_TIME}.")
    st.caption("Permanent link of this run")
    st.code(f"{st.context.url or ''}?{Key.RUN}={run['uid']}", language=None, wrap_lines=True)


def _repeat(run: Run) -> None:
    st.subheader("Repeat this run")
    show_commands(train_command(run["spec"], run["round"]))


def _measured(run: Run) -> None:
    """Show the non-empty lists of the run."""
    timed = run["counters"] if run["evidence"] != "emulated" else without_lock_times(run["counters"])
    for title, rows in {
        "Counters": timed,
        "Aborts": run["aborts"],
        "Lost updates": run["lost"],
        "Reads": run["reads"],
        **_contention(run),
    }.items():
        if rows:
            st.subheader(title)
            table = pd.DataFrame(rows).dropna(axis="columns", how="all")
            st.dataframe(
                table.rename(columns=HEADINGS),
                hide_index=True,
                width="content",
                alt=f"{title} of the run by worker and variable",
            )


def _contention(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The contention of updates, by title; the strategy determines what `retries` counts."""
    kinds = {kind: kind for kind in contention.KINDS} | {"retries": contention.kind_of_retries(run["spec"]["strategy"])}
    lists: dict[str, list[dict[str, Any]]] = {}
    for name, kind in kinds.items():
        renamed = {name: kind, contention.KINDS[name]: contention.KINDS[kind]}
        rows = [{renamed.get(column, column): value for column, value in row.items()} for row in run[name]]
        lists.setdefault(contention.TITLES[kind], []).extend(rows)
    return lists


def _origin(run: Run) -> None:
    """Show the factors of the run and its origin."""
    st.subheader("Configuration and origin")
    stored_ = run["stored"]
    platform = stored_["platform"]
    st.page_link(
        "views/platforms.py",
        label=f"Platform {escaping.markdown(stored_['platform_name'])}",
        icon=":material/memory:",
        query_params=with_sources({str(Key.PLATFORM): slug_of(platform) if sources_joined() else platform}),
    )
    origin = {name: run[name] for name in ("evidence", "ordinal", "resumed", "trial_seed", "started_at_utc")}
    for title, facts in {
        "Factors": {name: value for name, value in run["spec"].items() if value is not None},
        **({"Emulated machine": _flat(run["backend"])} if run["backend"] else {}),
        "Origin": {**run["experiment"], **run["campaign"], "round": run["round"], **origin, **stored_},
        "Software": run["software"],
        "State of the machine": run["machine"],
        "Platform": run["platform"],
        "Environment": run["environment"],
    }.items():
        with st.expander(title, expanded=title == "Factors"):
            _facts(title, facts)


def _files(run: Run) -> None:
    with st.container(horizontal=True):
        for label, mime, text in (("JSON", "application/json", run_json(run)), ("CSV", "text/csv", run_csv(run))):
            st.download_button(
                f"{label} of this run",
                text,
                file_name=f"run-{run['uid']}.{label.lower()}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
            )


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


def _flat(backend: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a backend: its configuration and its other fields in one mapping."""
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
    """Format a value; unreadable and inapplicable values become a dash."""
    if value is None:
        return "–"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def table_csv(runs: pd.DataFrame) -> str:
    """Format runs as CSV, one line per run; formulas are escaped."""
    return escaping.csv_frame(runs).to_csv(index=False)


def table_json(runs: pd.DataFrame) -> str:
    """Format runs as a JSON list of objects; missing values are null."""
    return json.dumps(runs.astype(object).where(runs.notna(), None).to_dict("records"), allow_nan=False)


def run_json(run: Mapping[str, Any]) -> str:
    """Format a stored run as JSON in the layout of its run file; an emulated run has a note instead of its times."""
    return json.dumps(_public_fields(run), indent=1, allow_nan=False)


def run_csv(run: Mapping[str, Any]) -> str:
    """Format a stored run as CSV lines of name and value, such as counters.0.updates,500."""
    return escaping.csv_frame(
        pd.DataFrame(leaves(_public_fields(run)), columns=["name", "value"], dtype=object)
    ).to_csv(index=False)


def _public_fields(run: Mapping[str, Any]) -> dict[str, Any]:
    return record.shown(record.Run.model_validate({name: run[name] for name in run if name != "stored"}))
