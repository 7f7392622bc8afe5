"""How to contribute: four steps for a machine of one's own, the machines missed most, and the upload."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from tmflow.base import escaping
from tmflow.base.processes import Ended, run_tmflow
from tmflow.base.text import several
from tmflow.claims.next_run import machines, measured_on, missing
from tmflow.claims.schema import load_claims
from tmflow.contributions import access, staging
from tmflow.contributions import access as limits
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine
from tmflow.portal.access import behind_token, visitor
from tmflow.portal.bundle_report import show_check
from tmflow.portal.links import link, show_commands
from tmflow.portal.study_data import Study

DOCS = "add-your-hardware"  # a page of the docs


class Step(NamedTuple):
    """What to do, why, and the commands, in the folder of the project."""

    title: str
    why: str
    commands: tuple[str, ...]


STEPS = (
    Step(
        "See what runs on your machine",
        "Linux, and a checkout of this project. The first command sets everything up and runs the study small, in "
        "some minutes; the second tries every strategy, and says whether hardware transactions really commit; the "
        "third finds out in a minute what the machine's transactions and its memory can do.",
        ("make quick", ".venv/bin/tmflow doctor", ".venv/bin/tmflow probe"),
    ),
    Step(
        "Measure",
        "The first command says how long it will take. Leave the machine alone meanwhile; the study can be stopped and "
        "goes on where it was. A machine without TensorFlow, or without Python, runs what needs neither with "
        "`tmflow-native`.",
        (".venv/bin/tmflow study plan --scale full", "make study"),
    ),
    Step(
        "Pack",
        "All runs and all that is known of your machine become one file, a bundle, named after the machine. It needs "
        "no network: carry it as you like. Pack again, and the same runs are the same bytes.",
        (".venv/bin/tmflow bundle export",),
    ),
    Step(
        "Hand over",
        "Upload the file below, where this portal takes uploads. Or open a pull request with the file as "
        "`contrib/<platform>/<bundle>.zip`: it is checked there, and everybody's `make study` stores it. Your machine "
        "is a platform of its own; its runs are pooled with no other's.",
        (),
    ),
)


def show_steps() -> None:
    """The steps, with the upload in the last."""
    for number, step in enumerate(STEPS, 1):
        with st.container(border=True):
            st.markdown(f"#### {number}. {step.title}")
            st.markdown(step.why)
            if step.commands:
                show_commands(*step.commands)
            if step is STEPS[-1]:
                show_upload()
    with st.container(horizontal=True):
        link("method", "All of it, for every kind of machine", page=DOCS)
        if access.is_on(Role.MAINTAINER):
            link("quarantine", "What waits, for maintainers")


def show_missing(study: Study) -> None:
    """The machines that claims wait for, with links to these."""
    claims = load_claims()
    found = missing(claims, machines(study.reader(), measured_on(study.counts)))
    if not found:
        st.markdown("No claim waits for another machine. Yours is still welcome: it may say otherwise.")
    for machine in found:
        n = len(machine.claims)
        st.markdown(f"**{machine}**: {several(n, 'claim')} {'waits' if n == 1 else 'wait'} for it.")
        for name in machine.claims:
            link("claims", name, claim=name)
            st.caption(claims.claims[name].statement)


OFF = (
    "This portal takes no uploads: open a pull request, or bring the file to whoever keeps the portal. "
    "They turn uploads on with `TMFLOW_UPLOAD_TOKEN`."
)
SHOWN = {"staged": st.success, "known": st.info, "refused": st.error}


@st.fragment  # so that who waits for a check takes no page's turn
def show_upload() -> None:
    """A form for whoever has the token; where uploads are off, a word about it."""
    label = "The token for uploads, from whoever keeps this portal"
    behind_token(Role.UPLOADER, label, _show_upload, lambda: st.caption(OFF))


def _show_upload(quarantine: Quarantine) -> None:
    with st.form("upload", clear_on_submit=True, border=False):
        file = st.file_uploader(
            f"A bundle: a zip of at most {limits.UPLOAD_MIB} MiB with at most {limits.MOST_RUNS:,} runs", type="zip"
        )
        if not st.form_submit_button("Check and hand over", icon=":material/upload:"):
            return
    if file is None:
        st.warning("Choose a file first.")
        return
    with st.spinner("Checking every run"):
        staged = _stage(quarantine, file)
    SHOWN[staged["outcome"]](escaping.markdown(staged["said"]))
    show_check(staged["report"])
    with quarantine.begin() as connection:
        quarantine.note(connection, "report", "shown", visitor(), staged["report"]["identity"])


def _stage(quarantine: Quarantine, file: UploadedFile) -> dict[str, Any]:
    by, name = visitor(), escaping.line(file.name)[: staging.LONGEST_NAME]
    staging.receive(quarantine, by, name, file.size)
    words = ["bundle", "stage", "-", "--json", f"--name={name}", f"--by={by}"]
    try:
        staged: dict[str, Any] = json.loads(
            run_tmflow(*words, given=file.getvalue(), without_env=set(Role), within_s=limits.CHECK_S)
        )
    except Ended:
        with quarantine.begin() as connection:
            quarantine.note(connection, "upload", "ended", by, details=name)
        raise
    return staged
