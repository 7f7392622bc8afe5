"""The report of a bundle's verification, as pages show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import streamlit as st

from tmflow.base import escaping
from tmflow.base.text import several
from tmflow.bundle.problems import Problem
from tmflow.bundle.signature import Signature

SHOWN = 20  # problems on the page; the file has them all


def show_check(report: Mapping[str, Any]) -> None:
    """Show the description of a bundle and its problems; `report` as from `Report.as_json`."""
    platforms = ", ".join(report["platforms"].values()) or "no platform"
    st.markdown(f"**The check**: {several(report['runs'], 'run')} of {escaping.markdown(platforms)}")
    if report["identity"]:
        st.caption(f"identity {report['identity']}, version {report['version']} of bundles")
    if signature := report.get("signature"):  # reports from before signatures have none
        st.caption(escaping.markdown(f"It is {Signature(**signature).sentence}."))
    problems = [Problem(**problem) for problem in report["problems"]]
    if not problems:
        st.markdown("No problems.")
        return
    st.markdown(
        "\n".join(f"- {problem.severity}: {escaping.markdown(problem.sentence)}" for problem in problems[:SHOWN])
    )
    if (more := len(problems) + report["omitted"] - SHOWN) > 0:
        st.caption(f"and {more:,} more")
    st.download_button(
        "Full report (JSON)",
        json.dumps(report, indent=1),
        file_name="report.json",
        mime="application/json",
        icon=":material/download:",
        on_click="ignore",
        key=f"report {report['identity']}",
    )
