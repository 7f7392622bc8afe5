"""The verdicts that the runs of a database give."""

from __future__ import annotations

from collections.abc import Sequence

from tmflow.base.errors import unknown
from tmflow.claims.data import load
from tmflow.claims.judge import Judged, experiments, judge
from tmflow.claims.schema import load_claims
from tmflow.spec.trial import Evidence
from tmflow.store import platform_queries
from tmflow.store.frames import Source


def verdicts(
    source: Source,
    evidence: Evidence | None = None,
    platform: str | None = None,
    claims: Sequence[str] | None = None,
    *,
    joined: bool = False,
) -> list[Judged]:
    """On every claim of data/claims.yaml, or on these alone, by each kind of evidence or by one alone.

    platform: by the runs of this one alone, by its key (`tmflow.platform.key`); no others are read. joined: by the runs
    of all sources of a platform together. Raises BadInput where the platform has no run, and for an unknown claim.
    """
    if platform is not None:
        known = list(platform_queries.platforms(source, joined=joined)["platform"])
        if platform not in known:
            raise unknown("platform", platform, known)
    its_claims = load_claims()
    if claims is not None:
        for name in claims:
            if name not in its_claims.claims:
                raise unknown("claim", name, its_claims.claims)
        chosen = {name: claim for name, claim in its_claims.claims.items() if name in claims}
        its_claims = its_claims.model_copy(update={"claims": chosen})
    tables = load(source, experiments(its_claims), None if platform is None else [platform], joined=joined)
    return judge(its_claims, tables, evidence)
