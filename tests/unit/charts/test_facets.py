"""Panels of many variants are split by a shared parameter; strategies without that parameter are in every part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import altair as alt
import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis import summaries
from tmflow.analysis.variants import ordered_variants
from tmflow.charts import measure_charts, palette
from tmflow.charts.figures import Figure, figures_of
from tmflow.charts.layout import MOST, split_facets
from tmflow.spec.strategies import parameters_of


def one(strategy: str, **parameters: Any) -> pd.DataFrame:
    return grid((strategy,), (1, 4), 2, **parameters_of(strategy) | parameters)


def autopsy() -> Iterator[pd.DataFrame]:
    """As `autopsy-htm`: 18 variants."""
    yield grid(("tf_lock", "tf_nolock"), (1, 4), 2)
    for kernel, optimisation in product(("eigen", "plain"), ("O0", "O3")):
        how = {"kernel": kernel, "optimisation": optimisation}
        yield from (one("lock", **how), one("spin_then_mutex", **how))
        yield from (one("htm", budget=budget, **how) for budget in (0, 5))


@pytest.fixture(scope="module")
def figure() -> Figure:
    summary = summaries.step_time(pd.concat(autopsy(), ignore_index=True))
    ((_, figure),) = figures_of("step_time", summary, "1")
    return figure


OF_EACH = ["tf_lock", "tf_nolock", "lock", "htm (budget 0)", "htm (budget 5)", "spin_then_mutex"]


def test_many_variants_are_drawn_by_kernel_and_optimisation(figure: Figure) -> None:
    assert figure.summary["variant"].nunique() == 18
    parts = split_facets(figure.summary)
    assert [label for label, _ in parts] == [
        f"kernel {kernel}, optimisation {level}" for kernel in ("eigen", "plain") for level in ("O0", "O3")
    ]
    for _, part in parts:
        assert ordered_variants(part["variant"]) == OF_EACH
        assert len(part) == 2 * len(OF_EACH)
    own = pd.concat([part[part["kernel"].notna()] for _, part in parts])
    assert sorted(own.index) == sorted(figure.summary[figure.summary["kernel"].notna()].index)  # each row once


def test_the_parts_share_axes_and_a_legend_that_tells_all_apart(figure: Figure) -> None:
    spec = figure.spec()
    assert [" ".join(part["title"]["text"]) for part in spec["concat"]] == [
        label for label, _ in split_facets(figure.summary)
    ]
    assert spec["title"]["text"]
    assert spec["description"]
    encodings = [layer["encoding"] for part in spec["concat"] for layer in part["layer"]]
    for channel in ("x", "y"):
        scales = [encoding[channel]["scale"] for encoding in encodings if "scale" in encoding.get(channel, {})]
        assert scales
        assert all(scale == scales[0] for scale in scales)
    colours, shapes = ([encoding[c]["scale"] for encoding in encodings if c in encoding] for c in ("color", "shape"))
    assert all(scale["domain"] == OF_EACH for scale in [*colours, *shapes])
    looks = list(zip(colours[0]["range"], shapes[0]["range"], strict=True))
    assert len(set(looks)) == len(OF_EACH)
    assert [colour for colour, _ in looks] == [palette.look(name.partition(" ")[0]).colour for name in OF_EACH]


@pytest.mark.slow
def test_parts_are_exported_whole(figure: Figure) -> None:
    picture = figure.file("svg").decode()
    assert all(label in picture for label, _ in split_facets(figure.summary))
    assert all(picture.count(f">{name}</text>") == 1 for name in OF_EACH)  # one legend


def test_what_is_legible_stays_whole() -> None:
    few = pd.concat([one("stm", design=design) for design in ("wb_etl", "wb_ctl", "wt")], ignore_index=True)
    chunks = pd.concat(
        [one("stm", chunk=chunk) for chunk in range(MOST + 1)], ignore_index=True
    )  # no factor to split by
    for runs in (grid(), few, chunks):
        summary = summaries.step_time(runs)
        ((label, whole),) = split_facets(summary)
        assert (label, whole is summary) == ("", True)
        assert isinstance(measure_charts.draw(summary), alt.LayerChart)


def test_variants_of_one_colour_come_apart_too() -> None:
    """As `autopsy-stm`: by the build, which lock has too, and then by the factor that gives the fewest parts."""
    ways = product(("O0", "O3"), ("all", "shared"), ("wb_etl", "wb_ctl", "wt"))
    own = [one("stm", optimisation=o, instrumentation=i, design=design) for o, i, design in ways]
    runs = pd.concat([*own, *(one("lock", optimisation=level) for level in ("O0", "O3"))], ignore_index=True)
    parts = dict(split_facets(summaries.step_time(runs)))
    assert list(parts) == [f"optimisation {o}, instrumentation {i}" for o in ("O0", "O3") for i in ("all", "shared")]
    for part in parts.values():
        assert set(part["variant"]) == {"lock", "stm (design wb_etl)", "stm (design wb_ctl)", "stm (design wt)"}
