"""Altair's charts without what takes it most time: copies of layers that nobody changes, and a slow way to rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

import altair as alt
import numpy as np
import pandas as pd


class Layer(alt.Chart):
    """A part of a chart that is not changed once it is one: Altair would copy all of it five times."""

    def __deepcopy__(self, _memo: object = None) -> Self:
        return self.copy(deep=False)


class Layered(alt.LayerChart):
    """Layers, as `Layer`."""

    def __deepcopy__(self, _memo: object = None) -> Self:
        return self.copy(deep=False)


def rows_of(data: Any) -> dict[str, list[dict[str, Any]]]:
    """A table of pandas as the values of a chart: None for what is unknown or not finite. Of any number of rows."""
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


# For all threads of a process: summaries are small, and a page asks for a dozen of them.
alt.data_transformers.register("rows_of", rows_of)
alt.data_transformers.enable("rows_of")
