"""Layers that are cheap to copy, their combination into charts, and the rows of a data frame as the data of a layer."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Self

import altair as alt
import numpy as np
import pandas as pd

from tmflow.charts.axes import LETTER
from tmflow.charts.tooltips import without_default_tooltip

Chart = alt.LayerChart | alt.ConcatChart

WIDTH, HEIGHT = 620, 340  # px; a page may stretch the width
SMALL_WIDTH, SMALL_HEIGHT, IN_A_ROW = 290, 200, 2  # of each panel of a chart; panels in a row


class Layer(alt.Chart):
    """An immutable layer: shallow copies avoid the five deep copies that Altair makes."""

    def __deepcopy__(self, _memo: object = None) -> Self:
        return self.copy(deep=False)


class Layered(alt.LayerChart):
    """A layered chart that is copied as `Layer` is."""

    def __deepcopy__(self, _memo: object = None) -> Self:
        return self.copy(deep=False)


def in_parts(
    describe: str,
    labels: Sequence[str],
    layers: Sequence[Sequence[alt.Chart]],
    params: Sequence[alt.TopLevelSelectionParameter] = (),
) -> Chart:
    """Combine the layers of each part: one chart for a single part, else small charts below their labels.

    params: the parameters of the chart.
    """
    if len(layers) == 1:
        return layered(describe, *layers[0], params=params)
    charts = [
        Layered(
            layer=[without_default_tooltip(layer) for layer in part_layers],
            title=alt.TitleParams(
                textwrap.wrap(label, SMALL_WIDTH // LETTER),
                anchor="start",
                fontSize=12,
                fontWeight="normal",
            ),
            width=SMALL_WIDTH,
            height=SMALL_HEIGHT,
        )
        for label, part_layers in zip(labels, layers, strict=True)
    ]
    return alt.ConcatChart(concat=charts, columns=IN_A_ROW, description=describe, params=list(params) or alt.Undefined)


def layered(
    describe: str, *layers: alt.Chart, height: int = HEIGHT, params: Sequence[alt.TopLevelSelectionParameter] = ()
) -> alt.LayerChart:
    """Combine layers into one chart; `describe` is the text for screen readers, `params` are the chart's parameters."""
    drawn = [without_default_tooltip(layer) for layer in layers]
    return Layered(layer=drawn, description=describe, width=WIDTH, height=height, params=list(params) or alt.Undefined)


def rows_of(data: Any) -> dict[str, list[dict[str, Any]]]:
    """Convert a data frame of any size to the values of a chart; missing and non-finite numbers become None."""
    names, columns = list(data.columns), [list(_cells(data[name])) for name in data.columns]
    return {"values": [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]}


def _cells(column: pd.Series) -> Iterator[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        yield from column.to_numpy().tolist()
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        yield from (value if math.isfinite(value) else None for value in column.to_numpy().tolist())
    else:
        values = column.to_numpy(dtype=object).tolist()
        for value, unknown in zip(values, column.isna().to_numpy().tolist(), strict=True):
            yield None if unknown else value.item() if isinstance(value, np.generic) else value


# Registered for all threads of the process: summaries are small, and a page draws a dozen of them.
alt.data_transformers.register("rows_of", rows_of)
alt.data_transformers.enable("rows_of")
