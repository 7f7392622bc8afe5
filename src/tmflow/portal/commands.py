"""Commands to copy."""

from __future__ import annotations

import streamlit as st

LANGUAGE = "text"  # in one colour: a shell's options are hardly to be read in the light theme


def show_commands(*commands: str) -> None:
    """One on each line."""
    st.code("\n".join(commands), language=LANGUAGE, wrap_lines=True)
