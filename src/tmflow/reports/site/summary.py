"""The first page of the site: what the runs of each platform say, in sentences, answers, and a matrix of platforms."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from tmflow.charts.captions import Titles
from tmflow.native.registry import consistency_by_strategy
from tmflow.reports import findings
from tmflow.reports.answers import Answer, ask
from tmflow.reports.findings import Finding
from tmflow.store.frames import Source


class OfModel(NamedTuple):
    """What the runs of every platform say of one model."""

    name: str
    sentences: list[tuple[str, str]]
    """The finding on each platform, and the experiments that it comes from."""
    headings: list[str]
    rows: list[dict[Hashable, Any]]
    """The matrix of platforms; `platform` is a key."""
    medians: dict[str, str]


class OfPlatform(NamedTuple):
    """The three answers of a platform, by its key."""

    platform: str
    name: str
    answers: Sequence[Answer]


def find_by_model(source: Source, counts: pd.DataFrame) -> dict[str, list[Finding]]:
    """The findings on each model, of all platforms that have any; `counts`: see `queries.counts`."""
    scales, consistencies = findings.measured_platforms(counts), consistency_by_strategy()
    every = {
        model: [findings.find(source, key, scale, model, consistencies) for key, scale in scales.items()]
        for model in findings.SOURCES
    }
    by_model = {model: [finding for finding in of_model if finding is not None] for model, of_model in every.items()}
    return {model: of_model for model, of_model in by_model.items() if of_model}


def summarise_model(model: str, every: Sequence[Finding], machines: pd.DataFrame, titles: Titles) -> OfModel:
    """The findings on a model for the page; `machines`: see `platform_queries.platforms`."""
    table = findings.matrix(every, machines)
    return OfModel(
        model,
        [(findings.sentence(finding), findings.sources(finding, titles)) for finding in every],
        [str(name) for name in table if name not in ("platform", "platform_name")],
        table.astype(object).where(table.notna(), "").to_dict("records"),
        findings.medians(every),
    )


def answer_by_platform(source: Source, counts: pd.DataFrame, revision: str, titles: Titles) -> list[OfPlatform]:
    """The three answers of every platform with measured runs at full scale."""
    names = dict(zip(counts["platform"], counts["platform_name"], strict=True))
    return [
        OfPlatform(key, names[key], ask(source, key, revision, consistency_by_strategy(), titles))
        for key, scale in findings.measured_platforms(counts).items()
        if scale == "full"
    ]
