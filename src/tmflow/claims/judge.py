"""Every claim's verdict, for each kind of evidence: from one machine and one origin, never from several together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pandas as pd

from tmflow.claims import verdict
from tmflow.claims.origin import Origin, origins, who_speaks
from tmflow.claims.schema import Claim, Claims
from tmflow.claims.selection import usable
from tmflow.claims.tables import Tables
from tmflow.claims.verdict import Finding, Verdict
from tmflow.runner.runfile import NO_TIME
from tmflow.spec import Evidence
from tmflow.wording import listed, several

KINDS: tuple[Evidence, ...] = get_args(Evidence)
# What runs of one machine have in common: the platform, the hardware threads that they could use, the emulator.
MACHINE = ["platform", "platform_name", "hardware_threads", "backend"]
NEEDS = {
    "rtm": "a machine with Intel's transactions (RTM)",
    "power": "a machine with POWER's transactions",
}


@dataclass(frozen=True)
class Judged:
    """A claim's verdict by one kind of evidence."""

    id: str
    claim: Claim
    evidence: Evidence
    finding: Finding
    machine: str | None
    """That whose runs the finding is from."""
    elsewhere: dict[str, Verdict]
    """The verdicts of other machines, by their names."""
    left_out: list[Origin] = field(default_factory=list)
    """What that machine has of other definitions or measured by other software."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "evidence": self.evidence,
            "verdict": self.finding.verdict,
            "why": self.finding.why,
            "numbers": self.finding.numbers,
            "more_rounds": self.finding.more_rounds,
            "platform": self.machine,
            "elsewhere": self.elsewhere,
            "runs": _drawn_on(self.finding.runs),
            "left_out": [origin.as_json() for origin in self.left_out],
            "source": self.claim.source,
            "statement": self.claim.statement,
            "explanation": self.claim.explanation,
        }


def judge(claims: Claims, tables: Mapping[str, Tables], evidence: Evidence | None = None) -> list[Judged]:
    """The verdict of each claim by each kind of evidence that it accepts or that there are runs of.

    tables: of every experiment that a claim names. evidence: of this kind alone.
    """
    return [
        _judged(name, claim, kind, claims, tables)
        for name, claim in claims.claims.items()
        for kind in KINDS
        if evidence in (None, kind) and (kind in claim.evidence or _has(claim, tables, kind))
    ]


def experiments(claims: Claims) -> list[str]:
    """Every experiment that a claim names, each once."""
    return list(dict.fromkeys(name for claim in claims.claims.values() for name in claim.experiments()))


def _has(claim: Claim, tables: Mapping[str, Tables], kind: Evidence) -> bool:
    return any((tables[name].runs["evidence"] == kind).any() for name in claim.experiments())


def _judged(name: str, claim: Claim, kind: Evidence, claims: Claims, tables: Mapping[str, Tables]) -> Judged:
    if kind not in claim.evidence:
        because = NO_TIME if kind == "emulated" and claim.is_about_time() else f"it takes {listed(claim.evidence)} runs"
        return Judged(
            name, claim, kind, Finding("untested", f"Evidence {kind} decides nothing here: {because}."), None, {}
        )
    of_claim = {name: usable(tables[name].runs, kind, claim.hardware) for name in claim.experiments()}
    found = {
        machine: (_finding(claim, claims, tables, of_claim, its), its) for machine, its in _machines(of_claim).items()
    }
    if not found:
        return Judged(name, claim, kind, Finding("untested", _nothing(claim, kind, tables)), None, {})
    (machine, (finding, its)), *others = sorted(found.items(), key=lambda item: item[1][0].verdict == "untested")
    left_out = [origin for of_experiment in its.values() for origin in of_experiment[1:]]
    elsewhere = {other: of_other.verdict for other, (of_other, _) in others}
    return Judged(name, claim, kind, finding, machine, elsewhere, left_out)


def _finding(
    claim: Claim,
    claims: Claims,
    tables: Mapping[str, Tables],
    runs: Mapping[str, pd.DataFrame],
    its: Mapping[str, list[Origin]],
) -> Finding:
    """What the runs of one machine say: of each experiment those of the origin that speaks."""
    speaking = {name: found[0].runs if found else runs[name][:0] for name, found in its.items()}
    finding = verdict.of_claim(claim, claims.configurations, tables, speaking)
    told = [sentence for found in its.values() if (sentence := who_speaks(found))]
    return replace(finding, why=" ".join([finding.why, *told]))


def _machines(runs: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, list[Origin]]]:
    """Each machine's runs of each experiment, by their origin.

    The machine first that has the most hardware threads, and then the most rounds that speak. What its runs say plays
    no part in that, so that no machine is chosen for its verdict.
    """
    together = pd.concat([frame[[*MACHINE, "uid"]] for frame in runs.values()])
    ranked = []
    for key, part in together.groupby(MACHINE, dropna=False, sort=False):
        threads, uids = part["hardware_threads"].iloc[0], set(part["uid"])
        its = {name: origins(frame[frame["uid"].isin(uids)], name) for name, frame in runs.items()}
        n_rounds = sum(found[0].rounds for found in its.values() if found)
        ranked.append((0 if pd.isna(threads) else -int(threads), -n_rounds, str(key), _named(part.iloc[0]), its))
    return {name: its for *_, name, its in sorted(ranked, key=lambda row: row[:3])}


def _named(run: pd.Series) -> str:
    """The machine for people; of an emulated one, which."""
    threads = run["hardware_threads"]
    usable_threads = (
        "nobody knows how many hardware threads" if pd.isna(threads) else several(threads, "hardware thread")
    )
    name = f"{run['platform_name']} ({run['platform']}), {usable_threads}"
    return name if pd.isna(run["backend"]) else f"{run['backend']} on {name}"


def _nothing(claim: Claim, kind: Evidence, tables: Mapping[str, Tables]) -> str:
    """Why no run may decide."""
    runs = {name: tables[name].runs for name in claim.experiments()}
    missing = [name for name, frame in runs.items() if not (frame["evidence"] == kind).any()]
    if missing:
        where = f" on {NEEDS[claim.hardware]}" if claim.hardware in NEEDS else ""
        return f"There is no {kind} run of {listed(missing)}{where}."
    together = pd.concat(list(runs.values()))
    together = together[together["evidence"] == kind]
    for column, wish, told in (("scale", "full", "quick"), ("dataset", "mnist", "of other data than MNIST")):
        if not (together[column] == wish).any():
            return f"There are only runs that are {told}, which decide nothing: experiments {listed(list(runs))}."
    return f"It needs {NEEDS.get(claim.hardware, 'other runs')}; there are runs of other machines only."


def _drawn_on(runs: Iterable[pd.DataFrame]) -> dict[str, Any]:
    """How many runs, how many of them disturbed or resumed, and of which experiments, campaigns, rounds and origins."""
    frames = list(runs)
    if not frames:
        return {"n": 0, "disturbed": 0, "resumed": 0, "of": []}
    used = pd.concat(frames).drop_duplicates("uid")
    of = [
        {
            "experiment": experiment,
            "campaign": campaign,
            "rounds": sorted({int(number) for number in part["round"]}),
            "definition": part["definition_sha256"].iloc[0],
            "software": part["software"].iloc[0],
        }
        for (experiment, campaign), part in used.groupby(["experiment", "campaign_uid"], sort=True)
    ]
    n_resumed = int(used["resumed"].sum())
    return {"n": len(used), "disturbed": verdict.n_disturbed(used), "resumed": n_resumed, "of": of}
