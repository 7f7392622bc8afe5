"""The kinds of saved benchmarks and their reports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tmflow.benchmark import plots
from tmflow.benchmark import read_report as reads
from tmflow.benchmark import step_report as steps
from tmflow.benchmark.markdown import markdown
from tmflow.benchmark.storage import Saved, SavedReads, SavedSteps, read_as

Benchmark = Saved | SavedSteps | SavedReads
KINDS: dict[str, type[Benchmark]] = {
    "tmflow bench apply": Saved,
    "tmflow bench step": SavedSteps,
    "tmflow bench read": SavedReads,
}


def read_any(path: Path) -> Benchmark:
    """Read a saved benchmark of any kind. Raises BadInput if the file is missing or something else."""
    return read_as(path, KINDS)


def shown(benchmark: Benchmark, stem: str | None) -> tuple[str, dict[str, dict[str, Any]]]:
    """Render the report as Markdown, and its pictures as Vega-Lite by file name; the names begin with `stem`.

    Without a stem there are none; steps and reads have none.
    """
    if isinstance(benchmark, SavedSteps):
        return steps.markdown(benchmark), {}
    if isinstance(benchmark, SavedReads):
        return reads.markdown(benchmark), {}
    pictures: Iterable[plots.Plot] = () if stem is None else plots.plots(benchmark)
    named = [(plot, f"{stem}-{plot.name}.svg") for plot in pictures]
    text = markdown(benchmark, [(plot.title, name) for plot, name in named])
    return text, {name: plot.chart.to_dict() for plot, name in named}
