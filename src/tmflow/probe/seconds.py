"""How long a probe may take."""

from __future__ import annotations

from tmflow.base.errors import BadInput

LEAST_S, MOST_S = 5.0, 600.0  # as the native library takes them


def require_seconds(seconds: float) -> None:
    """Raise BadInput for a time that a probe cannot take."""
    if not LEAST_S <= seconds <= MOST_S:
        raise BadInput(f"--seconds is {seconds:g}, but should be {LEAST_S:g} to {MOST_S:g}.")
