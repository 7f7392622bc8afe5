"""Links from page to page, and long lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import streamlit as st

Item = TypeVar("Item")
ICONS = {
    "claims": "gavel", "figures": "stacked_line_chart", "runs": "table_rows", "explore": "explore",
    "method": "menu_book", "quarantine": "inventory_2",
}  # fmt: skip


def link(page: str, label: str, /, **view: str | Sequence[str]) -> None:
    """A link to a page with these parameters of its URL. On a phone a long label is cut."""
    st.page_link(f"views/{page}.py", label=label, icon=f":material/{ICONS[page]}:", query_params=view)


def halves(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """For two columns, which stand one above the other on a phone: the first half, and the rest."""
    middle = (len(items) + 1) // 2
    return items[:middle], items[middle:]
