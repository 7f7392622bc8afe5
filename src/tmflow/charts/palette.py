"""Colours and shapes: a strategy has the same look in every chart; looks also differ without colour vision.

The name of a variant is its strategy and, after a blank, its parameters; a variant has the colour of its strategy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

# Okabe and Ito's colours without black and yellow, which vanish on a dark or a white page, and three of Tol's. All have
# a contrast of 3:1 on both pages except sky and orange, which have 2.2:1 on white: a darker orange would look like
# vermillion or olive to readers who see no red or green. Shapes and the table below each chart repeat the information.
BLUE, VERMILLION, GREEN, SKY = "#0072B2", "#D55E00", "#009E73", "#56B4E9"
ORANGE, PURPLE, OLIVE, GREY = "#E69F00", "#CC79A7", "#999933", "#888888"
NEUTRAL = "#8A8A8A"  # labels and rules inside a chart: legible on light and on dark


class Look(NamedTuple):
    colour: str
    shape: str


LOOKS: dict[str, Look] = {
    "tf_lock": Look(BLUE, "circle"),
    "tf_nolock": Look(VERMILLION, "square"),
    "lock": Look(SKY, "diamond"),
    "nolock": Look(ORANGE, "triangle-up"),
    "htm": Look(GREEN, "triangle-down"),
    "htm_if_fits": Look(GREEN, "diamond"),
    "stm": Look(PURPLE, "cross"),
    "lock_pthread": Look(BLUE, "diamond"),
    "itm": Look(OLIVE, "square"),
    "tle": Look(GREY, "circle"),
    "striped": Look(OLIVE, "diamond"),
    "block_stm": Look(PURPLE, "triangle-up"),
    "atomic": Look(GREY, "triangle-down"),
    "leashed": Look(BLUE, "cross"),
    "local_steps": Look(VERMILLION, "diamond"),
    "combining": Look(GREEN, "square"),
    "spin": Look(SKY, "triangle-up"),
    "spin_then_mutex": Look(SKY, "square"),
    "adaptive": Look(VERMILLION, "cross"),
}
# Causes of aborts, in the order in which bars stack them from the bottom: families, and classes of the study's figures.
CAUSES: dict[str, str] = {
    "capacity": BLUE,
    "conflict": VERMILLION,
    "self_conflict": PURPLE,
    "trans_conflict": VERMILLION,
    "nontrans_conflict": ORANGE,
    "validation": PURPLE,
    "lock_subscription": SKY,
    "explicit": GREEN,
    "user": GREEN,
    "interrupt_or_fault": ORANGE,
    "nested": OLIVE,
    "debug": "#666666",
    "other": GREY,
    "unknown": GREY,
}
# Phases of a worker's step in a cluster, in the order in which bars stack them.
PHASES: dict[str, str] = {
    "receive": SKY, "compute": BLUE, "send": ORANGE, "queue": PURPLE, "apply": VERMILLION, "other": GREY,
}  # fmt: skip
_COLOURS = (BLUE, VERMILLION, GREEN, SKY, ORANGE, PURPLE, OLIVE, GREY)
# For numbers: a ramp that is distinguishable without colour vision, and legible on white and on dark pages.
_RAMP = ("#3F74D1", "#8A63CC", "#C0589C", "#DA6A50", "#CE8A1E")
_SPARE_SHAPES = ("triangle-left", "triangle-right")
_SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", *_SPARE_SHAPES)


def look(strategy: str) -> Look:
    """The look of a strategy; one that is not in `LOOKS` gets a spare shape derived from its name."""
    if strategy in LOOKS:
        return LOOKS[strategy]
    digest = hashlib.sha256(strategy.encode()).digest()
    return Look(_COLOURS[digest[0] % len(_COLOURS)], _SPARE_SHAPES[digest[1] % len(_SPARE_SHAPES)])


def looks(variants: Iterable[str]) -> list[Look]:
    """The looks of variants drawn together; variants of one strategy differ in shape."""
    chosen: list[Look] = []
    for variant in variants:
        default = look(variant.partition(" ")[0])
        free = (Look(default.colour, shape) for shape in (default.shape, *_SHAPES))
        chosen.append(next((candidate for candidate in free if candidate not in chosen), default))
    return chosen


def of_categories(n: int) -> list[Look]:
    """The looks of n unordered categories: eight colours, with a new shape for each repetition."""
    return [Look(_COLOURS[i % len(_COLOURS)], _SHAPES[(i + i // len(_COLOURS)) % len(_SHAPES)]) for i in range(n)]


def of_numbers(n: int) -> list[Look]:
    """The looks of n numbers, lowest first: from blue to orange at equal lightness, with different shapes."""
    places = [i * (len(_RAMP) - 1) / max(n - 1, 1) for i in range(n)]
    return [Look(_between(place), _SHAPES[i % len(_SHAPES)]) for i, place in enumerate(places)]


def _between(place: float) -> str:
    """Interpolate the colour at a position on the ramp; integers are the colours of `_RAMP`."""
    first = min(int(place), len(_RAMP) - 2)
    ends = ([int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in _RAMP[first : first + 2])
    mixed = [round(left + (place - first) * (right - left)) for left, right in zip(*ends, strict=True)]
    return "#" + "".join(f"{part:02X}" for part in mixed)
