"""Figures as files: every format, equal numbers in all of them, and an index that names what is missing."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from PIL import Image

from tests.support.frames import grid, records
from tmflow.analysis import summaries
from tmflow.analysis.run_table import Loaded
from tmflow.charts import captions, figures, measure_charts, palette
from tmflow.charts.figures import Figure, draw_experiment, export, figures_of
from tmflow.charts.marks import Published
from tmflow.study.config import Kind


@pytest.fixture(scope="module")
def figure() -> Figure:
    ((_, figure),) = figures_of("speedup", summaries.speedup(grid()), "42")
    return figure


def test_export_writes_every_format_and_nothing_else(figure: Figure, tmp_path: Path) -> None:
    paths = export(figure, tmp_path / "new" / "speedup")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(path.name for path in paths)
    assert {path.name for path in paths} == {
        "speedup.svg",
        "speedup.png",
        "speedup.csv",
        "speedup.json",
        "speedup.vl.json",
    }


def test_csv_and_vega_lite_hold_the_numbers_that_are_drawn(figure: Figure) -> None:
    table = pd.read_csv(io.BytesIO(figure.file("csv")))
    spec = json.loads(figure.file("vl.json"))
    rows = [row for data in spec["datasets"].values() for row in data if "strategy" in row]
    drawn = pd.DataFrame(rows).drop_duplicates(["strategy", "threads"]).sort_values(["strategy", "threads"])
    for column in ("strategy", "threads", "estimate", "low", "high", "rounds"):
        assert drawn[column].tolist() == table[column].tolist()
    assert {"platform", "evidence", "dataset", "scale", "batch", "measure", "unit"} <= set(table.columns)


def test_svg_has_points_axis_titles_legend_and_caption(figure: Figure) -> None:
    root = ET.fromstring(figure.file("svg"))
    words = " ".join(root.itertext())
    for part in (
        "Worker threads",
        "Speedup over the same strategy",
        "tf_nolock",
        "ideal",
        "database revision 42",
        "A box",
    ):
        assert part in words
    symbols = [e for e in root.iter() if e.get("aria-roledescription") == "point"]
    assert len(symbols) == 8


def test_png_has_two_pixels_for_each_of_the_svg(figure: Figure) -> None:
    width, height = (float(ET.fromstring(figure.file("svg")).attrib[side]) for side in ("width", "height"))
    image = Image.open(io.BytesIO(figure.file("png")))
    assert image.size == (pytest.approx(2 * width, abs=2), pytest.approx(2 * height, abs=2))
    assert len(image.convert("RGB").getcolors(maxcolors=1 << 24) or ()) > 50  # something is drawn


def test_a_chart_of_more_than_5000_rows_is_exported() -> None:
    runs = grid(("tf_lock",), (1,), rounds=2, curve_points=500)
    points = [{"uid": uid, "iteration": i, "accuracy": 0.5} for uid in runs["uid"] for i in range(5001)]
    summary = summaries.curve(runs, pd.DataFrame(points))
    ((_, figure),) = figures_of("curve", summary, "1")
    assert len(json.loads(figure.file("vl.json"))["datasets"]) >= 1


def test_figures_of_one_panel_never_mix_configurations() -> None:
    drawn = dict(figures_of("accuracy", summaries.accuracy(pd.concat([grid(), grid(batch=1)])), "1"))
    assert list(drawn) == ["batch 1", "batch 100"]
    for figure in drawn.values():
        assert figure.summary["batch"].nunique() == 1


def everything() -> Loaded:
    """Two rounds of several strategies, with everything that can be recorded of them."""
    own = {"threads": (1, 2), "rounds": 2, "curve_points": 2}
    hardware = {"provider": "rtm", "budget": 5, "spending": "study_tsx", "chunk": 0}
    full = grid(("lock",), (2,), rounds=2, measures="full")
    usual = [grid(("tf_lock", "stm"), **own), grid(("htm",), **own, **hardware)]
    usual.append(grid(("lock",), **own, chunk=64).assign(uid=lambda of: "chunk-" + of["uid"]))
    cluster = grid(("lock",), (1, 2), rounds=2, driver="cluster").assign(uid=lambda of: "cluster-" + of["uid"])
    runs = pd.concat([*usual, full, cluster], ignore_index=True)
    uids = runs.loc[runs["curve_points"] > 0, "uid"]
    curves = [{"uid": u, "iteration": i, "elapsed_s": i / 100, "accuracy": a} for u in uids for i, a in CURVE]
    aborts = [
        {"uid": uid, "mechanism": mechanism, "family": "capacity", "raw_code": "0x00000008", "n": 3}
        for strategy, mechanism in (("htm", "rtm"), ("stm", "stm"))
        for uid in runs.loc[runs["strategy"] == strategy, "uid"]
    ]
    return records(
        runs,
        curves=pd.DataFrame(curves),
        staleness=pd.DataFrame([{"uid": uid, "staleness": s, "steps": 5} for uid in uids for s in (0, 1)]),
        transactions=pd.DataFrame({"uid": runs["uid"], "commits": 9, "fallbacks": 1, "attempts": 12}),
        aborts=pd.DataFrame(aborts),
        full=pd.DataFrame({"uid": full["uid"]}).assign(**dict.fromkeys(FULL_SHARES, 0.25)),
        phases=pd.DataFrame(
            [(uid, phase, 9.5, 3.0, 64.0) for uid in cluster["uid"] for phase in palette.PHASES], columns=PHASES
        ),
    )


PHASES = ["uid", "phase", "phase_us", "transfers", "bytes"]
CURVE = ((100, 0.2), (200, 0.98))
FULL_SHARES = tuple(f"{what}_fraction" for what in ("lost", "torn", "inconsistent", "lock_waited", "lock_held"))


@pytest.mark.slow
def test_an_experiment_is_drawn_and_indexed(tmp_path: Path) -> None:
    index = json.loads(draw_experiment(everything(), "fig_4_1", tmp_path, "42").read_text())
    assert list(dict.fromkeys(entry["kind"] for entry in index["figures"])) == list(figures.DRAWINGS)
    reasons = {(gap["kind"], *gap["reasons"]) for gap in index["not_drawn"]}
    assert {kind for kind, *_ in reasons} == {"speedup", "speedup_vs_tf_lock"}  # of the fully instrumented runs
    named = [name for entry in index["figures"] for name in entry["files"]]
    assert sorted([*named, "figures.json"]) == sorted(path.name for path in tmp_path.iterdir())


def test_kinds_can_be_chosen_and_figures_say_whose_runs_they_draw(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(figures, "FORMATS", {"csv": "text/csv"})
    path = draw_experiment(everything(), "fig-4.3", tmp_path, "42", ["failures", "commits"])
    index = json.loads(path.read_text())
    assert [entry["kind"] for entry in index["figures"]] == ["failures", "commits"]
    (failures, _) = index["figures"]
    assert failures["title"] == "Failed transactions by cause, as figure 4.3 of the study (htm)"
    assert "Runs of the experiment “fig_4_1”." in failures["caption"]
    assert failures["files"] == ["fig-4.3-failures-htm.csv"]
    assert set(pd.read_csv(tmp_path / "fig-4.3-failures-htm.csv")["cause"]) == {"capacity", "any"}


def test_captions_name_experiments_by_their_titles(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(figures, "FORMATS", {"csv": "text/csv"})
    titles = {"fig_4_1": "Softmax, batches of 100", "causes": "Causes of aborts"}
    path = draw_experiment(everything(), "causes", tmp_path, "42", ["failures"], titles=titles)
    (failures,) = json.loads(path.read_text())["figures"]
    assert failures["title"] == "Failed transactions by cause – Causes of aborts (htm)"
    assert "Runs of the experiment “Softmax, batches of 100”." in failures["caption"]


def test_what_was_asked_for_and_not_recorded_is_listed(tmp_path: Path) -> None:
    refused = grid(("htm",), status="unsupported", reason="no RTM here")
    index = json.loads(draw_experiment(records(refused), "fig-4.3", tmp_path, "42", ["failures"]).read_text())
    assert index["not_drawn"] == [{"kind": "failures", "panel": "htm", "reasons": ["unsupported: no RTM here"]}]


def test_what_cannot_be_drawn_is_listed_with_the_reason(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(figures, "FORMATS", {"csv": "text/csv"})
    runs = grid(("nolock",), (1, 2), rounds=2)
    index = json.loads(draw_experiment(records(runs), "fig_4_1", tmp_path, "42").read_text())
    assert index["not_drawn"] == [
        {"kind": "speedup_vs_tf_lock", "panel": "", "reasons": ["no round has tf_lock with one worker to compare with"]}
    ]
    assert [entry["kind"] for entry in index["figures"]] == ["speedup", "step_time", "accuracy"]


def test_a_panel_without_result_is_listed_beside_those_drawn(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(figures, "FORMATS", {"csv": "text/csv"})
    failed = {"status": "failed", "reason": "out of memory", "dataset_sha256": None}
    runs = pd.concat([grid(rounds=2), grid(rounds=2, batch=1).assign(**failed)])
    index = json.loads(draw_experiment(records(runs), "fig_4_1", tmp_path, "42").read_text())
    kinds = ["speedup", "speedup_vs_tf_lock", "step_time", "accuracy"]
    assert [(entry["kind"], entry["panel"]) for entry in index["figures"]] == [(kind, "batch 100") for kind in kinds]
    assert index["not_drawn"] == [
        {"kind": kind, "panel": "batch 1", "reasons": ["failed: out of memory"]} for kind in kinds
    ]


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (grid(status="unsupported", reason="TensorFlow is not installed"), "unsupported: TensorFlow is not installed"),
        (grid()[:0], "no run measured it"),
    ],
)
def test_an_experiment_without_result_has_no_figures_but_the_reasons(
    runs: pd.DataFrame, reason: str, tmp_path: Path
) -> None:
    index = json.loads(draw_experiment(records(runs), "fig_4_1", tmp_path / "new", "42").read_text())
    assert index["figures"] == []
    assert [entry["reasons"] for entry in index["not_drawn"]] == [[reason]] * 4
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["figures.json"]


def test_config_knows_every_kind_and_no_other() -> None:
    assert list(get_args(Kind)) == list(figures.DRAWINGS)


def test_every_drawing_has_titles() -> None:
    measures = {"accuracy_curve" if kind == "curve" else kind for kind in figures.DRAWINGS} - {"time_to_accuracy"}
    assert measures <= {*measure_charts.TITLES, *captions.STACKED}
    assert set(figures.DRAWINGS) <= set(captions.TITLES)
    assert figures.slug("speedup", "batch 1, step call callable") == "speedup-batch-1-step-call-callable"
    long, other = (figures.slug("step_time", "model x, " * 40 + end) for end in ("batch 1", "batch 2"))
    assert long.startswith("step_time-model-x-model-x")
    assert len(long) == len(other) == 200
    assert long != other


def test_published_numbers_are_marked_within_the_axes_and_named_in_the_caption() -> None:
    summary = summaries.speedup(grid(threads=(1, 2, 4)))
    numbers = [
        Published("a knee at 2", workers=2), Published("best about 25", value=25), Published("no gain", value=1),
    ]  # fmt: skip
    ((_, figure),) = figures_of("speedup", summary, "42", "fig-4.1", numbers)
    quoted = "Numbers of the study, from its machine (dotted, if within the axes): a knee at 2; best about 25; no gain."
    assert quoted in figure.caption.lines
    marked = json.dumps(figure.spec())
    assert '"text": "a knee at 2"' in marked
    assert '"text": "no gain"' in marked
    assert '"text": "best about 25"' not in marked, "25 is outside of the axis"
    bare = list(figures_of("speedup", summary, "42", "fig-4.1"))
    quick = list(figures_of("speedup", summary.assign(scale="quick"), "42", "fig-4.1", numbers))
    for _, without in bare + quick:
        assert "a knee" not in json.dumps(without.spec())
