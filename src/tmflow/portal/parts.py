"""The parts of a chart one by one, so that as many stand in a row as a screen has room for."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from tmflow.charts.labels import LETTER, in_room, longest
from tmflow.charts.marks import ENTRY
from tmflow.charts.stacked_bars import WORDS

WIDTH = 410  # px: three in a row on a wide screen; on a phone the width that there is
LEGEND = 270  # px of a legend's width beside the axis, which a phone has too
FIT = {"type": "fit-x", "contains": "padding"}  # a legend takes no height from its chart
CHANNELS = ("color", "shape", "opacity", "strokeDash")  # that may have a legend

Spec = dict[str, Any]


def parts(chart: Mapping[str, Any]) -> list[Spec]:
    """Each part of a Vega-Lite chart of several as a chart of its own; the last has the legend of all.

    One above a part, which is a line, is above each: so the parts of a row are level.
    """
    *others, last = deepcopy(chart["concat"])
    for part in others:
        for channel in _with_legend(part):
            if channel["legend"].get("orient") != "top":
                channel["legend"] = None
    for channel in _with_legend(last):
        names = [str(name) for name in channel["scale"]["domain"]]
        room = LEGEND - ENTRY
        columns = max(1, LEGEND // (ENTRY + LETTER * longest(names, room)))
        channel["legend"] |= {"columns": columns, "labelLimit": room}
        if max(map(len, names), default=0) * LETTER > room:
            words = WORDS if channel["field"] == "cause" else "datum.label"
            channel["legend"]["labelExpr"] = in_room(names, room, words=words)
    shared = {name: value for name, value in chart.items() if name not in ("concat", "columns", "datasets")}
    shared["autosize"] = FIT
    return [
        {**shared, **part, "datasets": {name: chart["datasets"][name] for name in _drawn(part)}}
        for part in (*others, last)
    ]


def _with_legend(part: Mapping[str, Any]) -> list[Spec]:
    channels = [layer["encoding"][name] for layer in part["layer"] for name in CHANNELS if name in layer["encoding"]]
    return [channel for channel in channels if isinstance(channel.get("legend"), dict)]


def _drawn(part: Mapping[str, Any]) -> set[str]:
    """The names of the datasets that a part draws."""
    return {its["data"]["name"] for its in (part, *part["layer"]) if "data" in its}
