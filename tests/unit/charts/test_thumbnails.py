"""Thumbnails: small pictures of charts, without a word."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis import summaries
from tmflow.charts import measure_charts
from tmflow.charts.thumbnails import HEIGHT, WIDTH, thumbnail

HOSTILE = "</text><script>alert(1)</script>"


def drawn(summary: pd.DataFrame) -> dict[str, object]:
    chart: dict[str, object] = measure_charts.draw(summary).to_dict()
    return chart


@pytest.mark.parametrize("measure", [summaries.speedup, summaries.accuracy, summaries.step_time])
def test_a_thumbnail_has_marks_and_no_text(measure: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    summary = measure(grid(rounds=3))
    picture = ET.fromstring(thumbnail(drawn(summary.assign(variant=HOSTILE))))
    tags = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert "path" in tags
    assert not {"text", "script"} & set(tags)
    assert float(picture.attrib["width"]) < WIDTH + 40
    assert float(picture.attrib["height"]) < HEIGHT + 40


def test_of_several_parts_the_first_is_drawn() -> None:
    chart, other = drawn(summaries.speedup(grid(rounds=3))), drawn(summaries.accuracy(grid(rounds=3)))
    shared = {name: value for name, value in chart.items() if name in ("$schema", "datasets")}
    parts = {**shared, "concat": [{"layer": chart["layer"]}, {"layer": other["layer"]}]}
    assert thumbnail(parts) == thumbnail(chart)
    assert thumbnail(parts) != thumbnail(other)
