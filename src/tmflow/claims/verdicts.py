"""The verdicts that the runs of a database give."""

from __future__ import annotations

from tmflow.claims.judge import Judged, experiments, judge
from tmflow.claims.schema import load_claims
from tmflow.claims.tables import load
from tmflow.spec import Evidence
from tmflow.store.frame import Source


def verdicts(source: Source, evidence: Evidence | None = None) -> list[Judged]:
    """On every claim of data/claims.yaml, for each kind of evidence or for one alone."""
    its_claims = load_claims()
    return judge(its_claims, load(source, experiments(its_claims)), evidence)
