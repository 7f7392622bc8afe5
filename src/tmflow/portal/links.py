"""Links between pages, long lists of links, and commands to copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import streamlit as st

from tmflow.portal.url_state import JOINED, Key, sources_joined

Item = TypeVar("Item")
ICONS = {
    "claims": "gavel", "figures": "stacked_line_chart", "runs": "table_rows", "explore": "explore",
    "method": "menu_book", "quarantine": "inventory_2", "platforms": "memory",
}  # fmt: skip


def link(page: str, label: str, /, **view: str | Sequence[str]) -> None:
    """Show a link to a page with these URL parameters. A phone truncates a long label."""
    st.page_link(f"views/{page}.py", label=label, icon=f":material/{ICONS[page]}:", query_params=with_sources(view))


def with_sources(view: Mapping[str, str | Sequence[str]]) -> dict[str, str | Sequence[str]]:
    """The parameters of a link; joined sources stay joined unless the view says otherwise."""
    kept = {str(Key.JOIN): JOINED} if sources_joined() else {}
    return {name: value for name, value in {**kept, **view}.items() if value != ""}


def halves(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Split items for two columns, which a phone shows one above the other."""
    middle = (len(items) + 1) // 2
    return items[:middle], items[middle:]


LANGUAGE = "text"  # no highlighting: shell options are barely legible in the light theme


def show_commands(*commands: str) -> None:
    """Show commands, one per line."""
    st.code("\n".join(commands), language=LANGUAGE, wrap_lines=True)
