"""Names that are too long for one line of a chart are wrapped; Vega would cut them."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import grid
from tmflow.analysis import summaries
from tmflow.charts import captions, explore
from tmflow.charts.axes import max_line_length, max_lines, wrap_name, wrapped_label_expr
from tmflow.charts.figures import figures_of, svg
from tmflow.charts.layout import Layout
from tmflow.charts.tooltips import workers_of
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
    """The texts in a chart, without blanks."""
    text = " ".join(unescape(text) for text in re.findall(r">([^<>]+)</t(?:ext|span)>", svg(spec)))
    return "".join(text.split())


@pytest.mark.parametrize("width", [620, 300])
@pytest.mark.parametrize("along", ["threads", "variant"])
def test_long_names_are_shown_whole(along: str, width: int) -> None:
    of = summary()
    names = [name for name in of["variant"].unique() if len(wrap_name(name, 230)) > 1]
    assert len(names) == 4
    colour = "variant" if along == "threads" else "threads"
    text = written({**explore.figure(of, Layout(along, colour), "1").drawn, "width": width})
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert all("".join(name.split()) in text for name in names)


def test_a_name_that_fits_is_left_as_it_is() -> None:
    assert wrap_name("lock", 100) == ["lock"]
    assert type(wrapped_label_expr(["lock", "nolock"], 100)).__name__ == "UndefinedType"
    assert (
        wrapped_label_expr(["a_cause"], 100, words="replace(datum.label, /_/g, ' ')")
        == "replace(datum.label, /_/g, ' ')"
    )


def test_a_long_name_is_in_lines_of_the_room_that_there_is() -> None:
    name = "htm (budget 5, chunk 64)"
    assert wrap_name(name, 72) == ["htm (budget", "5, chunk 64)"]
    assert max_line_length([name, "lock"], 72) == 12
    assert max_lines([name, "lock"], 72) == 2
    lines = wrapped_label_expr([name, "lock"], 72)
    assert wrapped_label_expr([name], 600, 72) == f"width > 480 ? datum.label : {lines}"
    assert wrapped_label_expr(["lock"], 600, 72) is wrapped_label_expr(["lock"], 72)


def test_no_name_is_in_what_vega_computes() -> None:
    assert "alert" not in wrapped_label_expr(["a name of two lines'+alert(1)+'"], 72)
    assert "alert" not in wrapped_label_expr(["a name of two lines'+alert(1)+'"], 600, 72)


def test_workers_of_a_cluster_are_processes() -> None:
    cluster = {"driver": "cluster", "model": "mnist_sigmoid", "hidden": 100, "iterations": 240}
    for driver, runs in (("threads", grid()), ("processes", grid(**cluster))):
        ((_, figure),) = figures_of("step_time", summaries.step_time(runs), "1")
        text = json.dumps(figure.spec())
        assert f"Worker {driver}" in text
        assert f"worker {driver}" in text
        assert f"orker {'threads' if driver == 'processes' else 'processes'}" not in text
    assert workers_of(["cluster", "session"]) == "workers"


def test_the_number_of_workers_of_a_panel_is_that_of_processes() -> None:
    slowed = [
        grid(("lock",), (2, 4), driver="cluster", mode="sync", slowdown=slowdown, iterations=240)
        for slowdown in (1, 2, 5)
    ]
    drawn = dict(figures_of("accuracy", summaries.accuracy(pd.concat(slowed, ignore_index=True)), "1"))
    assert list(drawn) == ["worker processes 2", "worker processes 4"]
    assert "Slowdown of the last worker (times)" in json.dumps(drawn["worker processes 2"].spec())
    assert "worker processes 2" in drawn["worker processes 2"].caption.title


def test_a_caption_names_servers_and_mode_and_what_is_unusual_about_a_cluster() -> None:
    cluster = {"driver": "cluster", "model": "mnist_sigmoid", "hidden": 100, "iterations": 240, "threads": (2, 4)}

    def ways(**factors: Any) -> str:
        return captions.workload(summaries.step_time(grid(**cluster, **factors)).iloc[0]).rpartition("; ")[2]

    assert ways() == "cluster driver, 1 server, mode async."
    assert ways(servers=2, placement="size") == "cluster driver, 2 servers, mode async, variables placed by size."
    sync = {"mode": "sync", "backup_workers": 1, "slowdown": 5}
    assert ways(**sync) == "cluster driver, 1 server, mode sync, 1 backup worker, last worker 5 times slower."
    assert captions.workload(summaries.step_time(grid()).iloc[0]).endswith("; session driver, ref variables.")


def test_a_caption_says_that_images_are_synthetic_and_how_large() -> None:
    network = {"model": "alexnet", "dataset": "synthetic", "image_size": 72, "passes": "forward"}
    text = captions.workload(summaries.step_time(grid(**network)).iloc[0])
    assert text.startswith("alexnet on synthetic images: batch")
    assert "784" not in text
    assert text.endswith("; session driver, ref variables, image size 72, passes forward.")
