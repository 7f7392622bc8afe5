"""One run in full: its results or why it failed, its files, the command that repeats it, and where it comes from."""

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
from tmflow.portal.url_state import TOLD, Key, go_to, sources_joined
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
"""In the layout of a run file, as `stored.run` tells it."""


def shown(study: Study, uid: str | None) -> bool:
    """Show the run with that uid; False, and a word about it, where there is none."""
    if uid is None:
        return False
    try:
        run = run_detail.run(study.reader(), uid)
    except BadInput:
        st.warning(f"The link asks for run '{escaping.markdown(uid[:TOLD])}', which is not in this database.")
        return False
    row = queries.runs(study.reader(), uids=[uid], status=None, all_definitions=True)
    _ways(search.neighbours(study.reader(), uid))
    _head(run)
    _repeat(run)
    _measured(run)
    for kind, summarise in (("curve", summaries.curve), ("staleness", summaries.staleness)):
        if run[kind] and run["status"] == "ok":
            show_summary(kind, summarise(row, pd.DataFrame(run[kind]).assign(uid=uid)), study.revision)
    _origin(run)
    _files(run)
    return True


def _ways(neighbours: tuple[str | None, str | None]) -> None:
    """To the search that the reader comes from, and to the same point in the rounds beside this one."""
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
    """What it is, how it ended and why, its numbers, and its permanent link."""
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
            st.badge("disturbed: others kept the machine busy", color="orange")
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
    st.subheader("Repeat it")
    show_commands(train_command(run["spec"], run["round"]))


def _measured(run: Run) -> None:
    """The lists of the run that have anything in them."""
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
            found = pd.DataFrame(rows).dropna(axis="columns", how="all")
            st.dataframe(
                found.rename(columns=HEADINGS),
                hide_index=True,
                width="content",
                alt=f"{title} of the run by worker and variable",
            )


def _contention(run: Run) -> dict[str, list[dict[str, Any]]]:
    """What stood in the way of updates, by its title. What `retries` counts is decided by the strategy."""
    kinds = {kind: kind for kind in contention.KINDS} | {"retries": contention.kind_of_retries(run["spec"]["strategy"])}
    found: dict[str, list[dict[str, Any]]] = {}
    for name, kind in kinds.items():
        renamed = {name: kind, contention.KINDS[name]: contention.KINDS[kind]}
        rows = [{renamed.get(column, column): value for column, value in row.items()} for row in run[name]]
        found.setdefault(contention.TITLES[kind], []).extend(rows)
    return found


def _origin(run: Run) -> None:
    """All that it was given and that is known of where it ran."""
    st.subheader("What ran, and where it comes from")
    stored_ = run["stored"]
    its = stored_["platform"]
    st.page_link(
        "views/platforms.py",
        label=f"Platform {escaping.markdown(stored_['platform_name'])}",
        icon=":material/memory:",
        query_params=with_sources({str(Key.PLATFORM): slug_of(its) if sources_joined() else its}),
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
    """The headline numbers that the run has. An emulated run shows no time."""
    times = {} if run["evidence"] == "emulated" else {"Loop": run["loop_s"], "Set-up": run["setup_s"]}
    found = {label: seconds(value) for label, value in times.items() if value is not None}
    if "Loop" in found and run["status"] == "ok":
        found["Time per step"] = seconds(run["loop_s"] / run["spec"]["iterations"])
    if run["final_accuracy"] is not None:
        found["Accuracy"] = f"{run['final_accuracy']:.4f}"
    return found | {name.capitalize(): f"{share:.2%}" for name, share in shares(run).items()}


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    if value >= 0.1:
        return f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} µs"


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


def table_csv(runs: pd.DataFrame) -> str:
    """One line for each run; no text in it is a formula."""
    return escaping.csv_frame(runs).to_csv(index=False)


def table_json(runs: pd.DataFrame) -> str:
    """A list with an object for each run; what is missing is null."""
    return json.dumps(runs.astype(object).where(runs.notna(), None).to_dict("records"), allow_nan=False)


def run_json(run: Mapping[str, Any]) -> str:
    """A stored run (`stored.run`) in the layout of its run file; an emulated one without its times, which it says."""
    return json.dumps(_told(run), indent=1, allow_nan=False)


def run_csv(run: Mapping[str, Any]) -> str:
    """The same as lines of name and value, such as counters.0.updates,500."""
    return escaping.csv_frame(pd.DataFrame(leaves(_told(run)), columns=["name", "value"], dtype=object)).to_csv(
        index=False
    )


def _told(run: Mapping[str, Any]) -> dict[str, Any]:
    return record.shown(record.Run.model_validate({name: run[name] for name in run if name != "stored"}))
