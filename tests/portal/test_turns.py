"""The number of concurrent pages is limited, and a page that has ended frees its place."""

from __future__ import annotations

from threading import Barrier, BrokenBarrierError, Thread

import pytest
from streamlit.runtime.scriptrunner import StopException

from tmflow.portal.server import AT_ONCE, limit_pages


def test_only_so_many_run_at_once_and_whoever_waits_gets_a_turn() -> None:
    together, all_in = Barrier(AT_ONCE + 1), []

    def page() -> None:
        with limit_pages():
            all_in.append(None)
            try:
                together.wait(timeout=0.2)  # one more than allowed: nobody gets past
            except BrokenBarrierError:
                return
            raise AssertionError("too many were in at once")

    threads = [Thread(target=page) for _ in range(3 * AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert together.broken
    assert len(all_in) == 3 * AT_ONCE


def test_a_page_that_stops_gives_its_turn_back() -> None:
    for _ in range(AT_ONCE + 1):  # one more than allowed
        with pytest.raises(StopException), limit_pages():
            raise StopException
