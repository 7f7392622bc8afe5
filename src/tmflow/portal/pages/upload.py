"""The upload of a bundle: it is checked, the report is shown, and it waits for a maintainer."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from tmflow.base import escaping
from tmflow.base.own_process import Ended, run_tmflow
from tmflow.contributions import limits, staging
from tmflow.contributions.access import Role
from tmflow.contributions.quarantine import Quarantine
from tmflow.portal.access import behind_token, visitor
from tmflow.portal.bundle_report import show_check

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
