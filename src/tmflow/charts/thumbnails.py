"""Thumbnails: a chart without words, small enough for a list of figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tmflow.charts.figures import svg

WIDTH, HEIGHT = 150, 80  # px of the plot
OUTER = ("encoding", "transform", "params", "name", "title", "width", "height")  # of a layer: replaced, or left out
WORDS = ("axis", "legend", "header", "title", "tooltip", "description")  # of a channel


def thumbnail(drawn: Mapping[str, Any]) -> str:
    """Render a chart (see `Figure.drawn`) as a small SVG without axes, legends and texts; of several parts the first.

    The picture has no text at all, so nothing in it becomes illegible or comes from an untrusted name. It shows all
    series of the chart, also those that the reader has to choose in the legend.

    Raises ValueError if Vega-Lite cannot draw the chart.
    """
    part = drawn["concat"][0] if "concat" in drawn else drawn
    layers = [_without_words(layer) for layer in part.get("layer", [part]) if _mark(layer) != "text"]
    spec = {
        "$schema": drawn["$schema"],
        "background": "transparent",  # the page may be dark
        "config": {"view": {"stroke": None}},
        "datasets": drawn.get("datasets", {}),
        "width": WIDTH,
        "height": HEIGHT,
        "layer": layers,
    }
    if "data" in part:
        spec["data"] = part["data"]
    return svg(spec)


def _mark(layer: Mapping[str, Any]) -> str:
    mark = layer.get("mark", "")
    return str(mark["type"] if isinstance(mark, dict) else mark)


def _without_words(layer: Mapping[str, Any]) -> dict[str, Any]:
    """The layer with all channels, but without their texts; its parameters belong to the interactive chart."""
    channels = {
        name: {**{key: value for key, value in channel.items() if key not in WORDS}, **_silent(name, channel)}
        for name, channel in layer.get("encoding", {}).items()
        if name not in WORDS and isinstance(channel, dict)
    }
    kept = {key: value for key, value in layer.items() if key not in OUTER}
    transforms = [it for it in layer.get("transform", []) if not _is_choice(it.get("filter"))]
    return {**kept, "encoding": channels, "transform": transforms}


def _is_choice(condition: object) -> bool:
    """Whether a filter follows a choice of the reader, such as a click in the legend, which a thumbnail lacks."""
    return isinstance(condition, dict) and "param" in condition


def _silent(name: str, channel: Mapping[str, Any]) -> dict[str, Any]:
    if name in ("x", "y"):
        return {"axis": None}
    return {"legend": None} if name in ("color", "shape", "opacity", "strokeDash") and "scale" in channel else {}
