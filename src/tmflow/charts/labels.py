"""Names in charts that are too long for a line: in several lines, for Vega would cut them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable
from typing import Any

import altair as alt

LETTER = 6  # px of a letter of a name, about
NARROW, PHONE = 480, 230  # px of a chart that is no wider than on a phone, and of a line of its legend there


def in_lines(name: str, room: int) -> list[str]:
    """A name in as many lines as it needs where there is so much room, in px."""
    return textwrap.wrap(name, room // LETTER, break_on_hyphens=False) or [name]


def most_lines(names: Iterable[str], room: int) -> int:
    """How many lines the longest of the names takes."""
    return max((len(in_lines(name, room)) for name in names), default=1)


def longest(names: Iterable[str], room: int) -> int:
    """Letters of the longest line of the names."""
    return max((len(line) for name in names for line in in_lines(name, room)), default=0)


def in_room(names: Collection[str], room: int, on_phone: int | None = None, words: str = "datum.label") -> Any:
    """What Vega shows as labels: names that are too long in lines of that room, others as `words` has them.

    For the `labelExpr` of a legend or an axis; nothing where all fit. on_phone: the room in a narrow chart of one part:
    those of several have no width in common. No name is in what Vega computes: it may be a stranger's.
    """
    wide, narrow = (_divided(words, at) if most_lines(names, at) > 1 else words for at in (room, on_phone or room))
    if wide == narrow:
        return alt.Undefined if wide == "datum.label" else wide
    return f"width > {NARROW} ? {wide} : {narrow}"


def _divided(words: str, room: int) -> str:
    """As `in_lines`, for Vega: as many whole words as a line holds, and of a longer word as many letters."""
    most = room // LETTER
    line = f"(?=.{{{most + 1}}})(?:(.{{1,{most}}}) +|(.{{{most}}}))"
    return f"split(replace({words}, regexp('{line}', 'g'), '$1$2\\n'), '\\n')"
