"""Text: numbers and lists in one format, and escapes for text from imported data, which is shown verbatim."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes a cell that begins with one of these
JOINER = "\N{WORD JOINER}"  # zero width
# All punctuation except harmless characters, and points and hyphens within words.
_MARKS = re.compile(rf"""_|(?!(?<=\w)[-.](?=\w))[^\w\s,;'"%?({JOINER}]""")
# Streamlit and GitHub's Markdown recognise these even in escaped text: addresses, shortcodes, arrows, dashes.
_FOUND_LATER = re.compile(r"(?<=:)(?=[a-z/])|(?<=@)(?=\w)|(?<=www)(?=\.)|(?<=[-<>=~])(?=[-<>=])", re.IGNORECASE)


def workers(*numbers: int) -> str:
    return f"{listed(numbers)} worker{'' if numbers == (1,) else 's'}"


def listed(items: Sequence[object]) -> str:
    """a, b and c"""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


def several(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def from_to(fewest: int, most: int, what: str) -> str:
    """6 rounds, or 3 to 6 rounds"""
    return several(most, what) if fewest == most else f"{fewest} to {most} {what}s"


def interval(estimate: float, low: float | None, high: float | None) -> str:
    """Format an estimate with its interval, if it has one.

    All three numbers have the same number of decimals: those that give the larger end four significant digits at most,
    and the smaller one three at most. Where a number would then keep fewer than two, each has three significant digits.
    """
    if low is None or high is None:
        return f"{estimate:.3g}"
    numbers = (estimate, low, high)
    sizes = [math.floor(math.log10(abs(number))) for number in numbers if number and math.isfinite(number)]
    smallest, largest = (min(sizes), max(sizes)) if sizes else (2, 2)
    decimals = max(0, min(2 - smallest, 3 - largest))
    if decimals < 1 - smallest or largest >= 6 or not all(map(math.isfinite, numbers)):
        return f"{estimate:.3g} [{low:.3g}, {high:.3g}]"
    return f"{estimate:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"


def percent(fraction: float) -> str:
    """97.5%, with as many digits as the fraction has, up to six"""
    return f"{100 * fraction:.6g}%"


def span(low: float | None, high: float | None) -> str:
    """Format a range; None is no bound."""
    if high is None:
        return "anything" if low is None else f"over {low:.3g}"
    return f"under {high:.3g}" if low is None else f"{low:.3g} to {high:.3g}"


def markdown(text: object) -> str:
    """Escape text for Markdown: punctuation becomes character references, line breaks become spaces.

    Invisible characters (control characters, changes of direction) become replacement characters, so that they do not
    affect the surrounding text. A zero-width joiner splits marks that would be recognised even when escaped.
    """
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", _FOUND_LATER.sub(JOINER, one_line(text)))


def one_line(text: object) -> str:
    """Escape text for a line of a terminal: no control character moves the cursor or changes a colour."""
    words = " ".join(str(text).split())
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c)[0] == "C" else c for c in words)


def printable(text: str, also: str = "") -> str:
    """Escape text for a terminal: control characters become escape sequences, except those in `also`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in also else ascii(c)[1:-1] for c in text)


def csv_cell(text: str) -> str:
    """Escape text for a CSV cell: an apostrophe precedes text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def csv_frame(table: pd.DataFrame) -> pd.DataFrame:
    """Escape the texts of a table for a CSV file; numbers, also negative ones, stay unchanged."""
    escaped = table.copy()
    for name in table.select_dtypes(["object", "string", "category"]):
        escaped[name] = [csv_cell(cell) if isinstance(cell, str) else cell for cell in table[name]]
    return escaped
