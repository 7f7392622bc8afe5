"""The page "Add your hardware": four steps, the most wanted machines, and the upload form."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from tmflow.base.processes import Ended
from tmflow.base.text import markdown, one_line, several
from tmflow.claims.next_run import find_missing_machines, load_machines, measured_on
from tmflow.claims.schema import load_claims
from tmflow.contributions import access, staging
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine
from tmflow.portal.links import link, show_commands
from tmflow.portal.study_data import Study
from tmflow.portal.uploads import note, run_bundle_command, show_behind_token, show_check, show_counts, visitor

DOCS = "add-your-hardware"  # a page of the docs


class Step(NamedTuple):
    """A step: its title, explanation, and commands to run in the project's folder."""

    title: str
    why: str
    commands: tuple[str, ...]


STEPS = (
    Step(
        "See what runs on your machine",
        "You need Linux and a checkout of this project. The first command sets everything up and runs the study at "
        "reduced size in a few minutes. The second tries every strategy and reports whether hardware transactions "
        "commit. The third measures the machine's transactions and memory in a minute.",
        ("make quick", ".venv/bin/tmflow doctor", ".venv/bin/tmflow probe"),
    ),
    Step(
        "Measure",
        "The first command estimates the duration. Leave the machine idle otherwise. You can stop the study and resume "
        "it later. Without TensorFlow, or without Python, use `tmflow-native` for the experiments that need neither.",
        (".venv/bin/tmflow study plan --scale full", "make study"),
    ),
    Step(
        "Pack",
        "All runs and the facts of your machine become one file, a bundle, named after the machine. This needs no "
        "network. Packing the same runs again gives the same bytes.",
        (".venv/bin/tmflow bundle export",),
    ),
    Step(
        "Hand over",
        "Open a pull request with the file as `contrib/<platform>/<bundle>.zip`: it is verified there, and every "
        "user's `make study` imports it. Or upload it below, if there is a form for it. Your "
        "machine becomes a separate platform; its runs are never pooled with those of another.",
        (),
    ),
)


def show_steps() -> None:
    """Show the steps; the last one has the upload form."""
    for number, step in enumerate(STEPS, 1):
        with st.container(border=True):
            st.markdown(f"#### {number}. {step.title}")
            st.markdown(step.why)
            if step.commands:
                show_commands(*step.commands)
            if step is STEPS[-1]:
                show_upload()
    with st.container(horizontal=True):
        link("method", "Full instructions for every kind of machine", page=DOCS)
        if access.is_on(Role.MAINTAINER):
            link("quarantine", "Waiting bundles, for maintainers")


def show_wanted_machines(study: Study | None) -> None:
    """Show the machines that claims wait for, with links to the claims; without a study, every machine is missing."""
    claims = load_claims()
    machines = load_machines(study.reader(), measured_on(study.counts)) if study else []
    wanted_machines = find_missing_machines(claims, machines)
    if not wanted_machines:
        st.markdown("No claim waits for another machine. Yours is still welcome: its results may differ.")
    for machine in wanted_machines:
        n = len(machine.claims)
        st.markdown(f"**{machine}**: {several(n, 'claim')} {'waits' if n == 1 else 'wait'} for it.")
        for name in machine.claims:
            link("claims", claims.claims[name].statement, claim=name)


OFF = (
    "This portal takes no uploads: open a pull request, or give the file to the portal's maintainers. "
    "They turn uploads on with `TMFLOW_UPLOAD_TOKEN`."
)
SHOWN = {"staged": st.success, "known": st.info, "refused": st.error}


@st.fragment  # so that waiting for a check occupies no page slot
def show_upload() -> None:
    """Show the upload form to users with a token; if uploads are off, say so."""
    label = "Upload token, from the portal's maintainers"
    show_behind_token(Role.UPLOADER, label, _show_upload, lambda: st.caption(OFF))


def _show_upload(quarantine: Quarantine) -> None:
    with st.form("upload", clear_on_submit=True, border=False):
        file = st.file_uploader(
            f"A bundle: a zip of at most {access.UPLOAD_MIB} MiB with at most {access.MOST_RUNS:,} runs", type="zip"
        )
        if not st.form_submit_button("Check and hand over", icon=":material/upload:"):
            return
    if file is None:
        st.warning("Choose a file first.")
        return
    with st.spinner("Checking every run"):
        staged = _stage(quarantine, file)
    SHOWN[staged["outcome"]](markdown(staged["said"]))
    if staged["runs"]:
        show_counts(staged["runs"])
    show_check(staged["report"])
    note(quarantine, "report", "shown", staged["report"]["identity"])


def _stage(quarantine: Quarantine, file: UploadedFile) -> dict[str, Any]:
    by, name = visitor(), one_line(file.name)[: staging.LONGEST_NAME]
    staging.receive(quarantine, by, name, file.size)
    words = ["stage", "-", "--json", f"--name={name}", f"--by={by}"]
    try:
        staged: dict[str, Any] = json.loads(run_bundle_command(*words, given=file.getvalue(), within_s=access.CHECK_S))
    except Ended:
        note(quarantine, "upload", "ended", details=name)
        raise
    return staged
