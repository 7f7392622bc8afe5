"""A chart that is split is shown in complete parts, the last of which has the common legend."""

from __future__ import annotations

import copy

import altair as alt
import pandas as pd

from tests.support.frames import grid
from tmflow.analysis import summaries
from tmflow.charts.figures import figures_of
from tmflow.portal import figure_view
from tmflow.spec.strategies import parameters_of

RUNS = pd.concat(
    [grid(("htm",), (1, 2), 2, **parameters_of("htm") | {"kernel": kernel, "optimisation": level, "budget": budget})
     for kernel in ("eigen", "plain") for level in ("O0", "O3") for budget in (0, 5, 100)],
    ignore_index=True,
)  # fmt: skip


def test_parts_are_charts_of_their_own_and_the_last_has_the_legend() -> None:
    ((_, figure),) = figures_of("speedup", summaries.speedup(RUNS), "1")
    before = copy.deepcopy(figure.drawn)
    alone = figure_view.split_parts(figure.drawn)
    assert figure.drawn == before  # shared with other parts
    assert len(alone) == len(before["concat"]) > 1
    for part in alone:
        alt.LayerChart.from_dict(part, validate=True)
        legends = [layer["encoding"][name].get("legend") for layer in part["layer"] for name in ("color", "shape")
                   if name in layer["encoding"]]  # fmt: skip
        assert any(legends) == (part is alone[-1])
    drawn = [rows for part in alone for rows in part["datasets"].values()]
    assert all(rows in drawn for rows in before["datasets"].values())
