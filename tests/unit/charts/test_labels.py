"""Names that are too long for a line of a chart are shown whole, in several; Vega would cut them."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis import summaries
from tmflow.charts import explore
from tmflow.charts.axes import in_lines, in_room, longest, most_lines
from tmflow.charts.figures import svg
from tmflow.charts.layout import Layout
from tmflow.spec.strategies import parameters_of

LIBRARIES = [f"libitm-{number} of a name that is too long for a line" for number in (1, 2)]


def summary() -> pd.DataFrame:
    itm = [
        grid(("itm",), (1, 2), 2, **parameters_of("itm") | {"library": library, "method": method})
        for library in LIBRARIES
        for method in ("ml_wt", "gl_wt")
    ]
    return summaries.step_time(pd.concat([grid(("tf_lock",), (1, 2), 2), *itm], ignore_index=True))


def written(spec: dict[str, Any]) -> str:
    """What is written in a chart, without blanks."""
    text = " ".join(unescape(text) for text in re.findall(r">([^<>]+)</t(?:ext|span)>", svg(spec)))
    return "".join(text.split())


@pytest.mark.parametrize("width", [620, 300])
@pytest.mark.parametrize("along", ["threads", "variant"])
def test_long_names_are_shown_whole(along: str, width: int) -> None:
    of = summary()
    names = [name for name in of["variant"].unique() if len(in_lines(name, 230)) > 1]
    assert len(names) == 4
    colour = "variant" if along == "threads" else "threads"
    text = written({**explore.figure(of, Layout(along, colour), "1").drawn, "width": width})
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert all("".join(name.split()) in text for name in names)


def test_a_name_that_fits_is_left_as_it_is() -> None:
    assert in_lines("lock", 100) == ["lock"]
    assert type(in_room(["lock", "nolock"], 100)).__name__ == "UndefinedType"
    assert in_room(["a_cause"], 100, words="replace(datum.label, /_/g, ' ')") == "replace(datum.label, /_/g, ' ')"


def test_a_long_name_is_in_lines_of_the_room_that_there_is() -> None:
    name = "htm (budget 5, chunk 64)"
    assert in_lines(name, 72) == ["htm (budget", "5, chunk 64)"]
    assert longest([name, "lock"], 72) == 12
    assert most_lines([name, "lock"], 72) == 2
    lines = in_room([name, "lock"], 72)
    assert in_room([name], 600, 72) == f"width > 480 ? datum.label : {lines}"
    assert in_room(["lock"], 600, 72) is in_room(["lock"], 72)


def test_no_name_is_in_what_vega_computes() -> None:
    assert "alert" not in in_room(["a name of two lines'+alert(1)+'"], 72)
    assert "alert" not in in_room(["a name of two lines'+alert(1)+'"], 600, 72)
