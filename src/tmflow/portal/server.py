"""The portal's process: limits on concurrent page runs, and Streamlit's command line without a request to the internet.

Under the GIL, pages that run concurrently all finish as late as the slowest, so only a few run at a time.

Streamlit asks an internet host for this machine's public address, to print it if it listens on all addresses, and for
each WebSocket from another origin, which blocks all other visitors. No setting of Streamlit disables this.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Semaphore

import streamlit as st
from streamlit import net_util
from streamlit.web import cli

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


def _unknown() -> None:
    """Stands for a host that does not answer; Streamlit then continues without the address."""


if __name__ == "__main__":
    net_util.get_external_ip = _unknown
    cli.main(prog_name="streamlit")
