"""What would decide a claim that is open: more rounds, other hardware, or runs that nobody has made yet."""

from __future__ import annotations

from tmflow.base.text import listed, several
from tmflow.claims.judge import NEEDS, Judged


def would_decide(judged: Judged) -> str:
    """In a sentence or two."""
    claim, finding = judged.claim, judged.finding
    if judged.evidence not in claim.evidence:
        return f"No {judged.evidence} run can: the claim takes {listed(claim.evidence)} ones."
    if finding.verdict in ("reproduced", "contradicted"):
        return "It is decided on this machine; runs of another may still say otherwise."
    if judged.machine is None:
        where = f", on {NEEDS[claim.hardware]}" if claim.hardware in NEEDS else ""
        return f"{judged.evidence.capitalize()} runs of {listed(claim.experiments())} at full scale{where}."
    if finding.verdict == "untested":
        reach = max(check.predicate.reach for check in claim.checks)
        return f"Runs on a machine with at least {several(reach, 'hardware thread')}, of all that it compares."
    if finding.more_rounds is None:
        return (
            "More rounds on this machine would hardly: what failed or diverged there must run, or another machine must."
        )
    return f"About {several(finding.more_rounds, 'more round')} on this machine, if means and spreads stay as they are."
