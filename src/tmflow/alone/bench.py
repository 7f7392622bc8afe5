"""`tmflow-native bench`: what an update costs, measured as `tmflow bench apply` does, told in fewer words."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

from tmflow.base.locks import machine_to_itself
from tmflow.base.processes import Workers
from tmflow.benchmark.left_out import LeftOut
from tmflow.benchmark.plan import Plan
from tmflow.benchmark.subjects import MEMCPY, WRITING
from tmflow.benchmark.updates import Bench, NotMeasurable, Outcome, update_times


def run(plan: Plan, *, as_json: bool) -> bool:
    """Measure, and print a row for each variant in each cell; whether each kept its promise.

    Raises BadInput, before anything is timed, if what was asked for cannot run here.
    """
    with machine_to_itself(), Workers() as workers:
        bench = Bench(plan, workers)
        outcome = bench.runnable()
        bench.measure(outcome, lambda done, total: None)
    rows = list(_rows(plan, outcome))  # which may leave out more
    for one in outcome.left_out:
        print(f"tmflow-native: not measured: {one.name}: {one.reason}", file=sys.stderr)
    if not as_json:
        print(f"{'variant':<28}{'elements':>10}{'threads':>9}{'gradient':>10}{'us per update':>16}{'lost':>10}")
    for row in rows:
        print(json.dumps(row) if as_json else _line(row))
    broken = [row for row in rows if row["promise"] not in (None, "none") and not row["kept"]]
    for row in broken:
        print(f"tmflow-native: {row['variant']} promises {row['promise']} and did not keep it.", file=sys.stderr)
    return not broken and not any(one.failed for one in outcome.left_out)


def _rows(plan: Plan, outcome: Outcome) -> Iterator[dict[str, Any]]:
    for cell in plan.cells:
        written = outcome.measured.get((WRITING, cell))
        for subject in outcome.subjects:
            measured = outcome.measured.get((subject.name, cell))
            answers = [answer for answer in measured.by_round if answer] if measured else []
            if measured is None or not answers or subject.strategy in (MEMCPY, WRITING):
                continue
            try:
                by_round = [us for us in update_times(cell, measured, written) if us is not None]
            except NotMeasurable as reason:
                outcome.left_out.append(LeftOut(name=subject.name, reason=str(reason), failed=False, **cell._asdict()))
                continue
            yield {
                "variant": subject.name,
                **cell._asdict(),
                "promise": subject.promise_over(cell.elements),
                "us_per_update": math.exp(sum(map(math.log, by_round)) / len(by_round)),
                "us_by_round": by_round,
                "lost_fraction": sum(one["lost"] for one in answers) / sum(one["expected"] for one in answers),
                "kept": not any(one["lost"] or one["doubled"] or one["corrupt_elements"] for one in answers),
            }


def _line(row: dict[str, Any]) -> str:
    what = f"{row['variant']:<28}{row['elements']:>10}{row['threads']:>9}{row['gradient']:>10}"
    return f"{what}{row['us_per_update']:>16.3f}{100 * row['lost_fraction']:>8.2f} %"
