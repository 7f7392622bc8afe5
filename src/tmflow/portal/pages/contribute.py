"""How to add a machine of one's own: four steps, and the machines that are missed most."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from tmflow.base.text import several
from tmflow.claims.machines import machines, measured_on, missing
from tmflow.claims.schema import load_claims
from tmflow.contributions import access
from tmflow.contributions.access import Role
from tmflow.portal.commands import show_commands
from tmflow.portal.links import link
from tmflow.portal.pages.upload import show_upload
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
        "Linux, and a checkout of this project. The first command sets everything up and runs the study small, in at "
        "most 3 minutes; the second tries every strategy, and says whether hardware transactions really commit; the "
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
