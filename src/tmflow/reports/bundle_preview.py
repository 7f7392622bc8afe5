"""What a waiting bundle would change: its runs against the database, the verdicts on claims, and a chart of it.

The bundle is imported into a temporary database; that of the study is only read.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Engine

from tmflow.base.text import several
from tmflow.bundle import format
from tmflow.bundle.reader import open_bundle
from tmflow.charts.figures import DRAWINGS, Figure, figures_of
from tmflow.claims import origins, tables
from tmflow.claims.schema import Claims, load_claims
from tmflow.claims.tables import Tables
from tmflow.claims.verdict import FAILS, HOLDS, UNTESTED, Verdict
from tmflow.contributions import overlap
from tmflow.contributions.importer import import_bundle
from tmflow.contributions.overlap import Overlap, RunKey
from tmflow.spec.trial import Evidence
from tmflow.store import queries, schema
from tmflow.store.engine import open_reader, sqlite_url
from tmflow.store.run_filter import RESULTS

DECIDED: tuple[Verdict, ...] = (HOLDS, FAILS)
KINDS = ("speedup", "step_time", "accuracy")
"""The kinds of figures of `DRAWINGS` that a preview tries, in this order: emulated runs have no times."""


class Change(NamedTuple):
    """The verdicts on a claim by one kind of evidence.

    before, after: what the claims show now, and if the bundle is accepted.
    of_bundle: that of the bundle's runs alone.
    """

    claim: str
    evidence: Evidence
    statement: str
    before: Verdict
    after: Verdict
    of_bundle: Verdict


@dataclass(frozen=True)
class Preview:
    """The runs of a bundle against the database, the claims that it decides or changes, and a chart of its runs."""

    overlap: Overlap
    changes: list[Change]
    figure: Figure | None

    @property
    def sentence(self) -> str:
        """What accepting the bundle does to the verdicts."""
        if not self.changes:
            return "The bundle's runs decide no claim."
        decided = sum(change.of_bundle in DECIDED for change in self.changes)
        changed = sum(change.before != change.after for change in self.changes)
        return (
            f"{several(decided, 'verdict')} by the bundle's runs alone; accepting it changes {changed} of those shown."
        )

    def as_json(self) -> dict[str, Any]:
        """The preview in JSON types; the chart is Vega-Lite."""
        return {
            "runs": self.overlap._asdict(),
            "runs_sentence": self.overlap.sentence,
            "verdicts": [change._asdict() for change in self.changes],
            "verdicts_sentence": self.sentence,
            "chart": self.figure
            and {
                "title": self.figure.caption.title,
                "caption": self.figure.caption.lines,
                "vega_lite": self.figure.drawn,
            },
        }


def preview(url: URL, file: Path, name: str) -> Preview:
    """Preview the import of a bundle under a name. Raises BadInput for a bundle with errors or an unusable database."""
    with open_bundle(file) as opened:
        probe = opened.document(format.PROBE)
    with tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        temporary = sqlite_url(Path(folder) / "bundle.db")
        import_bundle(temporary, file, name)
        bundle = open_reader(temporary)
        keys = overlap.keys_in(bundle)
        changes = _changes(url, bundle, keys)
        figure = _draw(bundle, keys)
        bundle.dispose()
    return Preview(overlap.compare(url, keys, probe), changes, figure)


def _changes(url: URL, bundle: Engine, keys: Sequence[RunKey]) -> list[Change]:
    """The claims that the bundle's runs decide, or whose verdict they change."""
    named = {key.experiment for key in keys}
    every = load_claims()
    about = {id: claim for id, claim in every.claims.items() if named.intersection(claim.experiments())}
    claims = every.model_copy(update={"claims": about})
    experiments = origins.experiments(claims)
    of_bundle = tables.load(bundle, experiments)
    here = tables.load(open_reader(url), experiments) if schema.exists(url) else {}
    stored = overlap.stored_content(url, [key.uid for key in keys])
    new = {name: table.without(stored) for name, table in of_bundle.items()}
    with_new = {name: here[name].joined_with(table) if name in here else table for name, table in new.items()}
    nothing = {name: table.without([key.uid for key in keys]) for name, table in of_bundle.items()}
    before, after, by_bundle = (_verdicts(claims, of) for of in (here or nothing, with_new, of_bundle))
    changes = [
        Change(claim, evidence, about[claim].statement, before.get(key, UNTESTED), after.get(key, UNTESTED), verdict)
        for key, verdict in by_bundle.items()
        for claim, evidence in [key]
    ]
    return [change for change in changes if change.of_bundle in DECIDED or change.before != change.after]


def _verdicts(claims: Claims, of: Mapping[str, Tables]) -> dict[tuple[str, Evidence], Verdict]:
    return {(judged.id, judged.evidence): judged.finding.verdict for judged in origins.judge(claims, of)}


def _draw(bundle: Engine, keys: Sequence[RunKey]) -> Figure | None:
    """The first figure that can be drawn of the experiment with the most runs; None if there is none."""
    (experiment, scale), _ = Counter((key.experiment, key.scale) for key in keys).most_common(1)[0]
    records = queries.records(bundle, replace(RESULTS, experiments=(experiment,), scales=(scale,)))
    revision = queries.revision(bundle)
    panels = (figures_of(kind, DRAWINGS[kind].summarise(records), revision) for kind in KINDS)
    return next((figure for of_kind in panels for _, figure in of_kind), None)
