"""Colours and shapes can be distinguished on light and dark pages, also without colour vision."""

from __future__ import annotations

import tomllib
from itertools import combinations

import pytest

from tmflow.base.paths import project_root
from tmflow.charts import palette

THEME = tomllib.loads((project_root() / ".streamlit" / "config.toml").read_text())["theme"]
PAGES = {scheme: THEME[scheme]["backgroundColor"] for scheme in ("light", "dark")} | {"paper": "#FFFFFF"}
GRAPHICS, TEXT = 3, 4.5  # WCAG 2.2, 1.4.11 and 1.4.3
BRIGHT, AT_LEAST = {palette.SKY, palette.ORANGE}, 2.2  # the reason is in palette.py
COLOURS = {look.colour for look in palette.LOOKS.values()} | {*palette.CAUSES.values(), palette.NEUTRAL}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(colour) + 0.05 for colour in (one, other))
    return high / low


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_every_line_point_and_bar_is_legible_on_every_page(colour: str, page: str) -> None:
    assert contrast(colour, PAGES[page]) >= (AT_LEAST if colour in BRIGHT and page != "dark" else GRAPHICS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("what", ["textColor", "linkColor"])
def test_text_is_legible(scheme: str, what: str) -> None:
    for behind in ("backgroundColor", "secondaryBackgroundColor"):
        assert contrast(THEME[scheme][what], THEME[scheme][behind]) >= TEXT


def test_no_two_strategies_look_the_same_and_those_of_a_colour_differ_in_shape() -> None:
    assert len(set(palette.LOOKS.values())) == len(palette.LOOKS)
    for one, other in combinations(palette.LOOKS.values(), 2):
        assert one.shape != other.shape or one.colour != other.colour
