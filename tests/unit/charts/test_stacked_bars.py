"""Bars of the phases of a step: each begins where the one below it ends, in the order of the phases."""

from __future__ import annotations

from typing import get_args

import pandas as pd
import pytest

from tests.support.frames import grid, records
from tmflow.charts import palette, stacked_bars
from tmflow.charts.figures import DRAWINGS, Figure, figures_of
from tmflow.runfile.record import Phase

# The rows of two bars, in the order of a database.
PHASES = pd.DataFrame(
    [
        ("worker 0", "apply", 40.0),
        ("worker 0", "compute", 1000.0),
        ("worker 0", "receive", 300.0),
        ("worker 1", "compute", 500.0),
        ("worker 1", "queue", 0.0),
    ],
    columns=["bar", "phase", "estimate"],
).assign(samples=20)


def test_phases_are_stacked_in_their_order() -> None:
    spec = stacked_bars.draw(PHASES, "bar", ["samples"]).to_dict()
    (rows,) = spec["datasets"].values()
    ends = {(row["bar"], row["phase"]): (row["start"], row["end"]) for row in rows}
    assert ends == {
        ("worker 0", "receive"): (0, 300),
        ("worker 0", "compute"): (300, 1300),
        ("worker 0", "apply"): (1300, 1340),
        ("worker 1", "compute"): (0, 500),
        ("worker 1", "queue"): (500, 500),
    }
    (layer,) = spec["layer"]
    assert layer["encoding"]["y"]["sort"] == ["worker 0", "worker 1"]
    scale = layer["encoding"]["color"]["scale"]
    assert scale["domain"] == ["receive", "compute", "queue", "apply"]
    assert scale["range"] == [palette.PHASES[phase] for phase in scale["domain"]]
    assert {row["says"] for row in rows} >= {"worker 0, compute: 1000 microseconds"}


def test_every_phase_of_a_run_file_has_a_colour() -> None:
    assert set(get_args(Phase.model_fields["phase"].annotation)) == set(palette.PHASES)


def figure(runs: pd.DataFrame) -> Figure:
    """The figure of these runs: compute takes the number of servers plus the round in microseconds, and apply 1."""
    times = [
        (uid, phase, us)
        for uid, servers, number in zip(runs["uid"], runs["servers"], runs["round"], strict=True)
        for phase, us in (("compute", servers + number), ("apply", 1.0))
    ]
    of = records(runs, phases=pd.DataFrame(times, columns=["uid", "phase", "phase_us"]).assign(transfers=1, bytes=8))
    ((_, drawn),) = figures_of("phases", DRAWINGS["phases"].summarise(of), "42")
    return drawn


def test_a_figure_has_a_bar_for_each_strategy_number_of_workers_and_servers() -> None:
    grids = [
        grid(("lock", "tf_lock"), (1, 2), 3, driver="cluster", servers=servers).assign(
            uid=lambda of, n=servers: f"{n}-" + of["uid"]
        )
        for servers in (1, 2)
    ]
    drawn = figure(pd.concat(grids, ignore_index=True))
    (rows,) = drawn.spec()["datasets"].values()
    bars = list(dict.fromkeys(row["bar"] for row in rows if row["phase"] == "compute"))
    names = [f"{of}, {n}, servers {m}" for of in ("tf_lock", "lock") for n in ("1 worker", "2 workers") for m in (1, 2)]
    assert bars == names
    ends = {(row["bar"], row["phase"]): row["end"] for row in rows}
    assert ends["lock, 2 workers, servers 2", "compute"] == pytest.approx(4)  # the mean of rounds 1, 2 and 3
    assert ends["lock, 2 workers, servers 2", "apply"] == pytest.approx(5)
    assert set(drawn.summary["unit"]) == {"us"}
    assert "Where phases overlap" in drawn.caption.text
    assert "3 rounds; 95 % t intervals of each phase over rounds are in the table." in drawn.caption.lines
    assert "bars:" not in drawn.caption.text
    assert b",compute,phases,us," in drawn.file("csv")


def test_runs_of_other_drivers_have_no_phases() -> None:
    summary = DRAWINGS["phases"].summarise(records(grid(("lock",), (2,), 2)))
    assert summary.empty
