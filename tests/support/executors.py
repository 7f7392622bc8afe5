"""Our executors, for tests that run under each of them."""

from __future__ import annotations

import pytest

from tmflow import runtime


def require_executor(name: str) -> str:
    """The name; skips the test if the executor is not built here."""
    if name not in runtime.built():
        pytest.skip(f"the executor {name} is not built: it needs {runtime.executors.OPTIONAL[name]}")
    return name
