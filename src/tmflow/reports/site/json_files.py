"""JSON files of a site that no page of it reads: the findings, and an index of every JSON file with its kind.

docs/publishing.md documents the format of each file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tmflow.analysis.stats import Interval, bounded
from tmflow.base.files import write_json
from tmflow.charts.json_table import SCHEMA_VERSION
from tmflow.reports import findings
from tmflow.reports.findings import Finding

INDEX = "index.json"
FINDINGS = "findings.json"
DESCRIBED = {
    "site.json": ("tmflow-site", "version, revision, scale, time of publishing, number and bytes of files"),
    FINDINGS: ("tmflow-findings", "what the runs of each platform say: ratios with intervals, and a sentence"),
    "claims.json": ("tmflow-claims", "the verdict on each claim by each kind of evidence"),
    "platforms.json": ("tmflow-platforms", "facts, environment and numbers of runs of each platform"),
    "figures.json": ("tmflow-figures", "every figure with title, caption and paths"),
    "runs/index.json": ("tmflow-runs", "columns of the runs, and the names of the files that have them"),
}
"""The kind and the content of each file, by its path; figures are listed one by one."""


def findings_document(listed: Iterable[Finding]) -> dict[str, Any]:
    """The findings as the document `FINDINGS`."""
    return {
        "kind": "tmflow-findings",
        "schema_version": SCHEMA_VERSION,
        "findings": [_finding(finding) for finding in listed],
    }


def write_index(folder: Path, about: Mapping[str, Any], figures: Iterable[tuple[str, str]]) -> None:
    """Write `INDEX`; `figures` are the path, without extension, and the title of each figure."""
    documents = [{"path": path, "kind": kind, "describes": words} for path, (kind, words) in DESCRIBED.items()]
    documents += [{"path": f"{path}.json", "kind": "tmflow-figure", "describes": title} for path, title in figures]
    write_json(
        folder / INDEX,
        {"kind": "tmflow-index", "schema_version": SCHEMA_VERSION, **about, "documents": documents},
    )


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "platform": finding.platform,
        "platform_name": finding.platform_name,
        "scale": finding.scale,
        "model": finding.model,
        "sentence": findings.sentence(finding),
        "sources": findings.sources(finding),
        "speed_over_lock": [
            {
                "quantity": quantity,
                "variant": effect.variant,
                "baseline": effect.baseline,
                "experiment": effect.experiment,
                "workers": effect.workers,
                "batch": effect.batch,
                **_interval(effect.speed),
            }
            for quantity, effect in finding.effects.items()
        ],
        "unsupported": sorted(finding.unsupported),
        "elements_in_transactions": finding.elements and _interval(finding.elements),
        "lost_updates": finding.lost and _interval(finding.lost),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    """The estimate, the bounds of its 95 % interval (null for a single round), and the number of rounds."""
    estimate, low, high = bounded(interval)
    return {"estimate": estimate, "low": low, "high": high, "rounds": interval.n}
