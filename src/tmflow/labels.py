"""Names in charts that are too long for a line: in several lines, for Vega would cut them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Any

import altair as alt

LETTER = 6  # px of a letter of a name, about
NARROW, PHONE = 480, 230  # px of a chart that is no wider than on a phone, and of a line of its legend there


def in_lines(name: str, room: int) -> list[str]:
    """A name in as many lines as it needs where there is so much room, in px."""
    return textwrap.wrap(name, room // LETTER) or [name]


def most_lines(names: Iterable[str], room: int) -> int:
    """How many lines the longest of the names takes."""
    return max((len(in_lines(name, room)) for name in names), default=1)


def longest(names: Iterable[str], room: int) -> int:
    """Letters of the longest line of the names."""
    return max((len(line) for name in names for line in in_lines(name, room)), default=0)


def in_room(names: Iterable[str], room: int, on_phone: int | None = None, words: str = "datum.label") -> Any:
    """What Vega shows as labels: names that are too long in lines of that room, others as `words` has them.

    For the `labelExpr` of a legend or an axis; nothing where all fit. on_phone: the room in a narrow chart of one part:
    those of several have no width in common.
    """
    wide, narrow = (_long(names, at, words) for at in (room, on_phone or room))
    if not wide and not narrow:
        return alt.Undefined if words == "datum.label" else words
    lines = json.dumps(wide)
    if narrow != wide:
        lines = f"(width > {NARROW} ? {lines} : {json.dumps(narrow)})"
    return f"{lines}[datum.label] || {words}"


def _long(names: Iterable[str], room: int, words: str) -> dict[str, list[str]]:
    shown = {name: name if words == "datum.label" else name.replace("_", " ") for name in names}
    lines = {name: in_lines(its, room) for name, its in shown.items()}
    return {name: its for name, its in lines.items() if len(its) > 1}
