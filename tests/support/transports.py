"""Our transports, for tests that run with each of them."""

from __future__ import annotations

import pytest

from tmflow import runtime

OURS = tuple(name for name in runtime.TRANSPORTS if name != runtime.GRPC)


def require_transport(name: str) -> str:
    """The name; skips the test if the transport is not built here."""
    if name not in runtime.built_transports():
        pytest.skip(f"the transport {name} is not built: it needs {runtime.transports.OPTIONAL[name]}")
    return name
