"""The content of a chart: its layers by mark, each with its rows."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd


def layers(chart: alt.LayerChart) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    for layer in spec["layer"]:
        layer["rows"] = spec["datasets"][layer.get("data", spec.get("data"))["name"]]
    return spec["layer"]


def marks(chart: alt.LayerChart, kind: str) -> list[dict[str, Any]]:
    return [layer for layer in layers(chart) if layer["mark"]["type"] == kind]


def text(chart: alt.LayerChart) -> str:
    return " ".join(str(layer["mark"]["text"]) for layer in marks(chart, "text"))


def points(chart: alt.LayerChart) -> pd.DataFrame:
    """The estimates, without the arrows of intervals that leave the chart."""
    drawn = [layer for layer in marks(chart, "point") if not str(layer["mark"].get("shape")).startswith("triangle")]
    return pd.DataFrame([row for layer in drawn for row in layer["rows"]])
