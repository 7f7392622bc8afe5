"""The complete Vega-Lite specifications of some layouts and of the charts of other pages.

After an intended change, renew them, check `git diff` and the charts, and commit:

    TMFLOW_RENEW_GOLDEN=1 python -m pytest tests/unit/charts/test_golden_charts.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.frames import grid, records
from tmflow.analysis import noise, summaries, trends
from tmflow.analysis.comparison import Sides, compared
from tmflow.charts import comparison, explore
from tmflow.charts.dot_plots import draw_predictions
from tmflow.charts.layers import Chart
from tmflow.charts.layout import Layout
from tmflow.charts.measure_charts import draw_noise
from tmflow.charts.trends import draw as draw_trend

NAN = float("nan")
GOLDEN = Path(__file__).with_name("golden")
HTM = {"provider": "rtm", "budget": 5, "spending": "study_tsx", "subscription": "variable"}


def runs(*parts: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True)


def aborts() -> pd.DataFrame:
    of = runs(*(grid(("htm",), (1, 2), 2, chunk=chunk, **HTM) for chunk in (0, 64)))
    of["uid"] = of.index.map(str)
    uid = of["uid"]
    counts = pd.DataFrame({"uid": uid, "mechanism": "rtm", "family": "conflict", "raw_code": "0x00000006", "n": 9})
    attempts = pd.DataFrame({"uid": uid, "commits": 90, "fallbacks": 0, "attempts": 100})
    return explore.MEASURES["raw_causes"](records(of, transactions=attempts, aborts=counts))


LAYOUTS: dict[str, tuple[pd.DataFrame, Layout]] = {
    "speedup-over-threads": (summaries.speedup(grid(rounds=2)), Layout("threads", "variant")),
    "accuracy-of-two-evidences": (
        summaries.accuracy(runs(grid(rounds=2), grid(("htm",), rounds=2, evidence="emulated"))),
        Layout("threads", "variant"),
    ),
    "step-time-over-batch-by-threads": (
        summaries.step_time(runs(*(grid(("lock",), (1, 2), 2, batch=batch) for batch in (1, 10, 100)))),
        Layout("batch", "threads", log_x=True, log_y=True),
    ),
    "accuracy-by-variant-of-platforms": (
        summaries.accuracy(runs(*(grid(threads=(2,), rounds=2, platform=p, platform_name=f"The {p}") for p in "ab"))),
        Layout("variant", "platform"),
    ),
    "time-over-lock-by-grain": (
        summaries.time_over_lock(
            runs(
                *(grid(("lock", "nolock"), (2,), 2, chunk=chunk) for chunk in (16, 256)),
                *(grid(("striped",), (2,), 2, block=block) for block in (16, 256)),
            )
        ),
        Layout("grain", "variant"),
    ),
    "raw-causes-over-chunk": (aborts(), Layout("chunk", "none")),
}


def sides() -> Chart:
    of_a, of_b = (grid((name,)).assign(software_sha256="5" * 64) for name in ("lock", "nolock"))
    return comparison.chart(compared(Sides(of_a, of_b), "speed"))


def spread() -> Chart:
    return draw_noise(noise.histogram(noise.deviations(grid().assign(software_sha256="5" * 64), 8)))


def trend() -> Chart:
    """Seven campaigns; from the fifth on, nolock is half as fast."""
    parts = [
        grid(("lock", "nolock"), (1, 4), 2, campaign_uid=f"campaign-{n}", git_commit=f"{n}" * 40).assign(
            started_at_utc=f"2026-03-0{n}T00:00:00.000Z",
            loop_s=lambda of, n=n: of["loop_s"] * (1 + n / 100 + (n > 4) * (of["strategy"] == "nolock")),
        )
        for n in range(1, 8)
    ]
    no_full = pd.DataFrame({"uid": pd.Series(dtype="str"), "lost_fraction": pd.Series(dtype="float64")})
    table = trends.series(trends.with_campaigns(runs(*parts)), no_full, "speed_ratio")
    changes = [change for point in trends.points(table) for change in trends.change_points(point)]
    assert len(changes) == 2
    return draw_trend(table, changes, "1").chart


def predictions() -> Chart:
    """Two strategies with intervals, and `lock`, which has none."""
    rows = [("spin", 75.0, 0.75, 0.5, 1.125, 39), ("lock", 100.0, 1.0, NAN, NAN, 51), ("stm", 210.0, 2.1, 1.4, 3.15, 7)]
    return draw_predictions(pd.DataFrame(rows, columns=["strategy", "us", "ratio", "low", "high", "cases"]), "Time")


CHARTS = {
    "speed-of-two-sides": sides, "noise-of-a-platform": spread, "trend-with-a-change": trend,
    "predicted-times": predictions,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_drawn_as_it_was(name: str) -> None:
    summary, layout = LAYOUTS[name]
    is_golden(name, explore.figure(summary, layout, "1").spec())


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_drawn_as_it_was(name: str) -> None:
    is_golden(name, CHARTS[name]().to_dict())


def is_golden(name: str, spec: dict[str, Any]) -> None:
    drawn = normal(spec)
    file = GOLDEN / f"{name}.vl.json"
    if os.environ.get("TMFLOW_RENEW_GOLDEN"):
        file.write_text(json.dumps(drawn, indent=1, sort_keys=True) + "\n")
    assert drawn == json.loads(file.read_text())


def normal(spec: dict[str, Any]) -> Any:
    """The specification with data sets named in their order, and numbers rounded to 6 digits."""
    text = json.dumps(spec)
    for place, name in enumerate(dict.fromkeys(_names(spec)), 1):
        text = text.replace(name, f"data-{place}")
    return json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))


def _names(part: Any) -> list[str]:
    if isinstance(part, list):
        return [name for entry in part for name in _names(entry)]
    if not isinstance(part, dict):
        return []
    own = [part["data"]["name"]] if "name" in part.get("data", {}) else []
    return own + [name for key, entry in part.items() if key != "datasets" for name in _names(entry)]
