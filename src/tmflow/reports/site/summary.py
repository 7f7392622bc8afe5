"""The first page of the site: what the runs of each platform say, in sentences, answers, and a matrix of platforms."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from tmflow.native.registry import consistency_by_strategy
from tmflow.reports import findings
from tmflow.reports.answers import Answer, ask
from tmflow.store import platform_queries
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


def summarise_models(source: Source, counts: pd.DataFrame) -> list[OfModel]:
    """The findings on each model, of all platforms that have any; `counts`: see `queries.counts`."""
    scales, machines, consistencies = (
        findings.measured_platforms(counts),
        platform_queries.platforms(source),
        consistency_by_strategy(),
    )
    models = []
    for model in findings.SOURCES:
        every = [findings.find(source, key, scale, model, consistencies) for key, scale in scales.items()]
        found = [finding for finding in every if finding is not None]
        if found:
            table = findings.matrix(found, machines)
            models.append(
                OfModel(
                    model,
                    [(findings.sentence(finding), findings.sources(finding)) for finding in found],
                    [str(name) for name in table if name not in ("platform", "platform_name")],
                    table.astype(object).where(table.notna(), "").to_dict("records"),
                    findings.medians(found),
                )
            )
    return models


def answer_by_platform(source: Source, counts: pd.DataFrame, revision: str) -> list[OfPlatform]:
    """The three answers of every platform with measured runs at full scale."""
    names = dict(zip(counts["platform"], counts["platform_name"], strict=True))
    return [
        OfPlatform(key, names[key], ask(source, key, revision, consistency_by_strategy()))
        for key, scale in findings.measured_platforms(counts).items()
        if scale == "full"
    ]
