"""Limits concurrent page runs: under the GIL, pages that run together all finish as late as the slowest."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Semaphore

import streamlit as st

AT_ONCE = 2  # one can run while the other waits for the database


@st.cache_resource
def _page_slots() -> Semaphore:
    return Semaphore(AT_ONCE)


@st.cache_resource
def freeze_imports(page: str) -> None:
    """Exclude a page's imports from garbage collection after its first view; each collection would take 0.2 s."""
    gc.collect()  # otherwise present garbage would be frozen as well
    gc.freeze()


@contextmanager
def limit_pages() -> Iterator[None]:
    """Wait for a free slot, first come, first served; the slot is released when the block ends."""
    with _page_slots():
        yield
