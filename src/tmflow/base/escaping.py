"""Text from imported data, made inert: it is shown as it stands and means nothing to what shows it."""

from __future__ import annotations

import re
import unicodedata

import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a cell begins with that a spreadsheet computes
JOINER = "\N{WORD JOINER}"  # of no width
# All but those that nothing reads, and the points and hyphens within words.
_MARKS = re.compile(rf"""_|(?!(?<=\w)[-.](?=\w))[^\w\s,;'"%?({JOINER}]""")
# What Streamlit and GitHub's Markdown look for even in text that was escaped: addresses, shortcodes, arrows, dashes.
_FOUND_LATER = re.compile(r"(?<=:)(?=[a-z/])|(?<=@)(?=\w)|(?<=www)(?=\.)|(?<=[-<>=~])(?=[-<>=])", re.IGNORECASE)


def markdown(text: object) -> str:
    """The text for a place that reads Markdown: marks as character references, line breaks as blanks.

    What has no shape (control characters, changes of direction) is a replacement character, so that it cannot disturb
    what stands around it. Where a mark would be found even so, a joiner of no width parts it.
    """
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", _FOUND_LATER.sub(JOINER, line(text)))


def line(text: object) -> str:
    """The text for a line of a terminal: no control character of it moves the cursor or changes a colour."""
    words = " ".join(str(text).split())
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c)[0] == "C" else c for c in words)


def csv_cell(text: str) -> str:
    """The text for a cell of a CSV file: after an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def csv_frame(table: pd.DataFrame) -> pd.DataFrame:
    """The table for a CSV file: its texts made inert, all else, numbers below 0 too, as it is."""
    texts = [name for name in table if pd.api.types.is_string_dtype(table[name]) or table[name].dtype == object]
    return table.assign(
        **{str(name): table[name].map(lambda cell: csv_cell(cell) if isinstance(cell, str) else cell) for name in texts}
    )
