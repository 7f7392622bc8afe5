"""No text of a chart overlaps another or leaves the picture, in a wide and in a narrow chart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
from playwright.sync_api import Page

from tests.portal.chromium import chromium
from tests.portal.text_boxes import misplaced
from tests.support.frames import grid
from tests.unit.charts.test_figures import everything
from tmflow.analysis import baseline, summaries
from tmflow.analysis.variants import STRATEGIES
from tmflow.charts import dot_plots, explore, measure_charts
from tmflow.charts.figures import DRAWINGS, figures_of, svg
from tmflow.charts.layout import Layout
from tmflow.charts.palette import CAUSES
from tmflow.spec.strategies import parameters_of

GOLDEN = sorted((Path(__file__).parents[1] / "unit" / "charts" / "golden").glob("*.vl.json"))
FONT = "DejaVu Sans"  # wider than those of exported charts and of pages
NARROW = 300  # px: the plot of a chart on a phone
COUNTS = (1, 2, 4, 8, 16, 26, 32, 48, 64)  # worker threads of the study

Spec = dict[str, Any]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_page()


def narrowed(spec: Spec) -> Spec:
    """The chart as wide as on a phone, without its caption, which a page shows as text; parts are never narrower."""
    narrow = {name: value for name, value in spec.items() if name != "title"}
    return {**narrow, "width": NARROW} if "layer" in narrow else narrow


def fitted(spec: Spec, width: int) -> Spec:
    """The chart with everything around its plot in a width, as a page shows it."""
    fit = {"autosize": {"type": "fit-x", "contains": "padding"}, "width": width}
    return {**{name: value for name, value in spec.items() if name != "title"}, **fit}


def check(page: Page, spec: Spec) -> None:
    for chart in (spec, narrowed(spec)):
        assert misplaced(page, drawn(chart)) == []


def drawn(spec: Spec) -> str:
    """The chart in a font that both Chromium and the renderer have on every machine of the tests."""
    return svg({**spec, "config": {**spec.get("config", {}), "font": FONT}})


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.name.removesuffix(".vl.json"))
def test_texts_of_golden_charts_have_room(page: Page, file: Path) -> None:
    check(page, json.loads(file.read_text()))


@pytest.mark.parametrize("kind", DRAWINGS)
def test_texts_of_each_kind_of_figure_have_room(page: Page, kind: str) -> None:
    for _, figure in figures_of(kind, DRAWINGS[kind].summarise(everything()), "1"):
        check(page, figure.spec())


def test_texts_of_many_series_and_threads_have_room(page: Page) -> None:
    runs = grid(STRATEGIES, COUNTS, 2, hardware_threads=8)
    for _, figure in figures_of("speedup", summaries.speedup(runs), "1"):
        check(page, figure.spec())


def test_texts_of_long_names_and_parts_have_room(page: Page) -> None:
    how = [{"kernel": kernel, "optimisation": level} for kernel in ("eigen", "plain") for level in ("O0", "O3")]
    runs = pd.concat(
        [grid(("htm",), COUNTS, 2, **parameters_of("htm") | of | {"budget": budget}) for of in how for budget in (0, 5)]
    )
    summary = summaries.step_time(runs.assign(hardware_threads=8))
    for layout in (Layout("threads", "variant"), Layout("variant", "threads"), Layout("threads", "budget", "kernel")):
        check(page, explore.figure(summary, layout, "1").spec())


@pytest.mark.parametrize("compare", [baseline.speed, baseline.accuracy])
def test_texts_of_a_comparison_with_a_baseline_have_room(page: Page, compare: Any) -> None:
    summary = compare(grid(STRATEGIES, (2,)), "tf_lock", 6)
    check(page, dot_plots.draw_comparison(summary, "tf_lock").to_dict())


def test_texts_of_many_long_names_along_x_have_room(page: Page) -> None:
    how = [{"kernel": kernel, "optimisation": level} for kernel in ("eigen", "plain") for level in ("O0", "O3")]
    runs = pd.concat(
        [
            grid((name,), (2,), 2, **parameters_of(name) | of)
            for name in ("lock", "spin_then_mutex", "htm")
            for of in how
        ]
    )
    figure = explore.figure(summaries.step_time(runs), Layout("variant", "threads"), "1")
    assert misplaced(page, drawn(fitted(figure.spec(), 358))) == []


def test_texts_of_charts_as_wide_as_a_phone_have_room(page: Page) -> None:
    answer = dot_plots.draw_comparison(baseline.accuracy(grid(STRATEGIES[:3], (2,)), "tf_lock", 6), "tf_lock")
    assert misplaced(page, drawn(fitted(answer.to_dict(), 326))) == []
    aborts = next(figure.summary for _, figure in figures_of("causes", DRAWINGS["causes"].summarise(everything()), "1"))
    aborted = aborts[aborts["estimate"].notna() & (aborts["cause"] != summaries.ANY)].head(1)
    of_causes = pd.concat([aborted.assign(cause=cause, estimate=0.1) for cause in CAUSES])
    assert misplaced(page, drawn(fitted(measure_charts.draw(of_causes).to_dict(), 358))) == []


def texts(apart: int, **options: Any) -> Spec:
    """Two words at some px from each other."""
    data = pd.DataFrame({"x": [100, 100 + apart], "says": ["oversubscribed", "more than 4"]})
    chart = alt.Chart(data, width=400, height=100, **options).mark_text()
    spec: Spec = chart.encode(x=alt.X("x:Q", scale=None, axis=None), text="says:N").to_dict()
    return spec


def test_what_overlaps_or_leaves_the_picture_is_found(page: Page) -> None:
    assert misplaced(page, drawn(texts(apart=200))) == []
    assert misplaced(page, drawn(texts(apart=20))) == ["'oversubscribed' overlaps 'more than 4'"]
    assert misplaced(page, drawn(texts(apart=290, autosize="none"))) == ["'more than 4' leaves the picture"]
