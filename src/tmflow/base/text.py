"""Numbers and lists as they read in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def workers(*numbers: int) -> str:
    return f"{listed(numbers)} worker{'' if numbers == (1,) else 's'}"


def listed(items: Sequence[object]) -> str:
    """a, b and c"""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


def several(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def printable(text: str, also: str = "") -> str:
    """The text for a terminal: what could move the cursor or change a colour is spelt out, but for `also`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in also else ascii(c)[1:-1] for c in text)


def interval(estimate: float, low: float | None, high: float | None) -> str:
    """An estimate with its interval, where it has one."""
    bounds = "" if low is None or high is None else f" [{low:.3g}, {high:.3g}]"
    return f"{estimate:.3g}{bounds}"


def span(low: float | None, high: float | None) -> str:
    """What is between the bounds; None is no bound."""
    if high is None:
        return "anything" if low is None else f"over {low:.3g}"
    return f"under {high:.3g}" if low is None else f"{low:.3g} to {high:.3g}"
