"""How good the cost model of advice is: each published case, predicted from other models, or from other machines.

    python -m tests.speed.cost_model_error docs/speed/cost-model.md

It reads the bundles of contrib/ and measures nothing, so it gives the same report on every machine.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from tests.conftest import ROOT
from tests.support import command_line
from tmflow.advice.cases import Case, cases_of, guaranteeing
from tmflow.advice.cost_model import Group, HeldOut, Workers, error_factor, held_out, of_ratios, regret_of
from tmflow.advice.forecast_text import name_workers
from tmflow.base.files import write_text
from tmflow.base.text import interval, listed
from tmflow.reports.pages.bundle_runs import published_runs

ALWAYS = ("spin", "adaptive", "striped", "lock")


def published_cases() -> list[Case]:
    """The cases of every machine of contrib/, by the name of its folder: two machines have the same display name."""
    cases: list[Case] = []
    for folder in sorted({bundle.parent for bundle in (ROOT / "contrib").glob("*/*.zip")}):
        with published_runs(folder) as published:
            cases += cases_of(guaranteeing(published.runs, "block").assign(platform=folder.name))
    return cases


def report(cases: Sequence[Case]) -> str:
    """The page."""
    predicted = {group: list(held_out(cases, group)) for group in get_args(Group)}
    machines, models = (Counter(getattr(case, group) for case in cases) for group in ("machine", "model"))
    oversubscribed = sum(case.oversubscribed for case in cases)
    lines = [
        "# How good the cost model is",
        "",
        f"{len(cases)} cases, {oversubscribed} of them with more workers than processors, from the published runs of "
        f"{len(machines)} machines: {listed([f'{name} ({number})' for name, number in sorted(machines.items())])}. A "
        "case is one configuration with one number of workers, and has the times of `lock` and two or more other "
        "strategies that keep every update and guarantee the consistency block, each in its fastest variant. They "
        f"train {len(models)} models: {listed([f'{name} ({number})' for name, number in sorted(models.items())])}. "
        "`python -m tests.speed.cost_model_error` computes this page again.",
        "",
        "Each case is predicted by a cost model that was fitted without its model, or without its machine. The "
        "*regret* is the measured time under the strategy with the smallest predicted time over that under the "
        "fastest, less 1. The fastest of several in six rounds is also the luckiest, so the regret is rather too "
        "large; the columns *surely* count the cases whose 95 % interval lies above 5 and above 15 %. The last column "
        "has the smallest factor within which 90 % of the predicted ratios to `lock` of every single model were.",
        "",
        "| strategy by | cases | median | 9 in 10 below | worst | surely above 5 % | surely above 15 % | factor |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_row(f"the cost model without the {group}", of_group) for group, of_group in predicted.items()),
        *_by_workers(predicted["model"]),
        *(row for strategy in ALWAYS for row in _always(strategy, predicted["model"])),
        "",
        "## The cases with several workers",
        "",
        "Predicted without their model. *Predicted* and *measured* are the time of the advised strategy over that of "
        "`lock`; *density* is the elements that a step updates for each microsecond that it takes one worker.",
        "",
        "| machine | experiment | model | | workers | density | advised | predicted | measured | fastest "
        "| time over the fastest's [95 % interval] |",
        "| --- | --- | --- | --- | ---: | ---: | --- | ---: | ---: | --- | ---: |",
        *(_case(one) for one in predicted["model"] if one.case.workers > 1),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, predictions: Sequence[HeldOut]) -> str:
    factor = error_factor(predictions, of_ratios)
    return _regrets(name, [one.regret for one in predictions], predictions) + f" {factor:.2f} |"


def _regrets(name: str, regrets: Sequence[float], certain: Iterable[HeldOut] | None) -> str:
    shares = [100 * float(np.quantile(regrets, q)) for q in (0.5, 0.9, 1)]
    above = (
        ["", ""] if certain is None else [str(sum(one.ratio.low > limit for one in certain)) for limit in (1.05, 1.15)]
    )
    return f"| {name} | {len(regrets)} | " + " | ".join([*(f"{share:.1f} %" for share in shares), *above]) + " |"


def _by_workers(predictions: Sequence[HeldOut]) -> Iterator[str]:
    by_workers: dict[Workers, list[HeldOut]] = defaultdict(list)
    for one in predictions:
        by_workers[Workers(one.case.workers, one.case.oversubscribed)].append(one)
    for number in sorted(by_workers):
        yield _row(f"the cost model without the model, {name_workers(number)}", by_workers[number])


def _always(strategy: str, predictions: Sequence[HeldOut]) -> Iterator[str]:
    """Where the strategy was measured: its regret if it is always taken, and that of the cost model."""
    having = [one for one in predictions if strategy in one.case.us]
    yield (
        _regrets(f"always `{strategy}`, where measured", regret_of([one.case for one in having], strategy), None) + " |"
    )
    if len(having) < len(predictions):
        yield _row("there, the cost model without the model", having)


def _case(one: HeldOut) -> str:
    case = one.case
    measured = math.exp(case.logs[one.advised])
    predicted = measured * math.exp(one.errors.get(one.advised, 0.0))
    workers = f"{case.workers}{' (oversubscribed)' if case.oversubscribed else ''}"
    ratio = "1" if one.advised == case.fastest else interval(*one.ratio[:3])
    cells = [
        *(case.machine, case.experiment, case.model, case.description, workers, f"{case.density:.3g}", one.advised),
        *(f"{predicted:.2f}", f"{measured:.2f}", case.fastest, ratio),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("report", type=command_line.report, help="docs/speed/cost-model.md")
    path: Path = parser.parse_args().report
    write_text(path, report(published_cases()))
