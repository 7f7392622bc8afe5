"""A chart that is split is shown in complete parts below a legend of all of them."""

from __future__ import annotations

import copy

import altair as alt
import pandas as pd

from tests.support.frames import grid, records
from tmflow.analysis import summaries
from tmflow.charts import explore
from tmflow.charts.figures import figures_of
from tmflow.charts.layout import Layout
from tmflow.portal import figure_view
from tmflow.spec.strategies import parameters_of

RUNS = pd.concat(
    [grid(("htm",), (1, 2), 2, **parameters_of("htm") | {"kernel": kernel, "optimisation": level, "budget": budget})
     for kernel in ("eigen", "plain") for level in ("O0", "O3") for budget in (0, 5, 100)],
    ignore_index=True,
)  # fmt: skip


def test_parts_are_charts_of_their_own_below_the_legend_of_all() -> None:
    ((_, figure),) = figures_of("speedup", summaries.speedup(RUNS), "1")
    before = copy.deepcopy(figure.drawn)
    legend, alone = figure_view.split_parts(figure.drawn)
    assert figure.drawn == before  # shared with other parts
    assert len(alone) == len(before["concat"]) > 1
    alt.Chart.from_dict(legend, validate=True)
    names = [row["variant"] for row in legend["data"]["values"]]
    assert names == ["htm (budget 0)", "htm (budget 5)", "htm (budget 100)"]
    assert all(legend["encoding"][channel]["scale"]["domain"] == names for channel in ("color", "shape"))
    for place, part in enumerate(alone):
        alt.LayerChart.from_dict(part, validate=True)
        assert not any(
            layer["encoding"][name].get("legend")
            for layer in part["layer"]
            for name in ("color", "shape")
            if name in layer["encoding"]
        )
        (choice,) = part["params"]
        assert choice["views"] == [f"chosen_{place}"]
        assert choice["name"] == legend["params"][0]["name"]
    drawn = [rows for part in alone for rows in part["datasets"].values()]
    assert all(rows in drawn for rows in before["datasets"].values())


def test_bars_have_the_legend_of_all_causes_without_a_choice() -> None:
    designs = ("wt", "wb_etl")
    parts = [grid(("stm",), (1, 2), 2, **parameters_of("stm") | {"design": design}) for design in designs]
    runs = pd.concat([part.assign(uid=part["uid"] + design) for part, design in zip(parts, designs, strict=True)])
    attempts = pd.DataFrame({"uid": runs["uid"], "commits": 90, "fallbacks": None, "attempts": 100})
    aborts = pd.DataFrame({"uid": runs["uid"], "mechanism": "stm", "family": "lock_subscription", "raw_code": "0x1",
                           "n": 9})  # fmt: skip
    summary = explore.MEASURES["causes"](records(runs, transactions=attempts, aborts=aborts))
    figure = explore.figure(summary, Layout("threads", "none"), "1")
    legend, alone = figure_view.split_parts(figure.drawn)
    assert len(alone) == 2
    assert "params" not in legend
    assert [row["cause"] for row in legend["data"]["values"]] == ["lock_subscription"]
    alt.Chart.from_dict(legend, validate=True)
    for part in alone:
        alt.LayerChart.from_dict(part, validate=True)
