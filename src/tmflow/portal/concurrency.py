"""Pages take turns: Python runs one thread at a time, so pages that run together are all done as late as the last."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Semaphore

import streamlit as st

AT_ONCE = 2  # while one waits for the database, the other runs


@st.cache_resource
def _turns() -> Semaphore:
    return Semaphore(AT_ONCE)


@st.cache_resource
def opened_once(page: str) -> None:
    """What a page imported at its first view stays: the collector need not look at it again, 0.2 s each time."""
    gc.collect()  # what is garbage already would stay, too
    gc.freeze()


@contextmanager
def in_turn() -> Iterator[None]:
    """Wait for one's turn, first come first served, and give it back however the page ends."""
    with _turns():
        yield
