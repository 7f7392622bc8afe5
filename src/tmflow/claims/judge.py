"""The verdict on every claim, for each kind of evidence: from one machine and one origin, never from several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple, get_args

import pandas as pd

from tmflow.base.errors import unknown
from tmflow.base.text import listed, several
from tmflow.claims import verdict
from tmflow.claims.data import Candidates, Tables, load
from tmflow.claims.provenance import Origin, origins, who_speaks
from tmflow.claims.schema import Claim, Claims, Hardware, load_claims
from tmflow.claims.selection import usable
from tmflow.claims.verdict import Finding, Verdict
from tmflow.platform.key import is_local
from tmflow.runfile.record import NO_TIME
from tmflow.spec.trial import Evidence
from tmflow.store import platform_queries
from tmflow.store.frames import Source

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
    """The verdicts of other machines, and of contributions, by their names."""
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


class Machine(NamedTuple):
    """A machine with runs that may decide a claim, for people, and those runs of each experiment."""

    name: str
    local: bool
    """Whether its runs were ingested here, and did not come with a contribution."""
    origins: dict[str, list[Origin]]
    """The one first that speaks."""
    speaking: dict[str, Candidates]


Machines = Callable[[Evidence, Hardware, tuple[str, ...]], list[Machine]]


def judge(claims: Claims, tables: Mapping[str, Tables], evidence: Evidence | None = None) -> list[Judged]:
    """The verdict of each claim by each kind of evidence that it accepts or that there are runs of.

    tables: of every experiment that a claim names. evidence: of this kind alone.
    """

    @cache  # most claims look at the same runs
    def of_kind(name: str, kind: Evidence, hardware: Hardware) -> pd.DataFrame:
        its = tables[name]
        return usable(its.runs, kind, hardware) if kind in its.evidences else its.runs[:0]

    machines = cache(partial(_machines, tables, of_kind))
    return [
        _judged(name, claim, kind, claims, tables, machines)
        for name, claim in claims.claims.items()
        for kind in KINDS
        if evidence in (None, kind) and (kind in claim.evidence or _has(claim, tables, kind))
    ]


def experiments(claims: Claims) -> list[str]:
    """Every experiment that a claim names, each once."""
    return list(dict.fromkeys(name for claim in claims.claims.values() for name in claim.experiments()))


def _has(claim: Claim, tables: Mapping[str, Tables], kind: Evidence) -> bool:
    return any(kind in tables[name].evidences for name in claim.experiments())


def _judged(
    name: str, claim: Claim, kind: Evidence, claims: Claims, tables: Mapping[str, Tables], machines: Machines
) -> Judged:
    if kind not in claim.evidence:
        because = NO_TIME if kind == "emulated" and claim.is_about_time() else f"it takes {listed(claim.evidence)} runs"
        return Judged(
            name, claim, kind, Finding("untested", f"Evidence {kind} decides nothing here: {because}."), None, {}
        )
    varying = {name: tables[name].varying for name in claim.experiments()}
    found = [
        (machine, _finding(claim, claims, varying, machine))
        for machine in machines(kind, claim.hardware, tuple(claim.experiments()))
    ]
    if not found:
        return Judged(name, claim, kind, Finding("untested", _nothing(claim, kind, tables)), None, {})
    # No contribution speaks in the place of runs that were ingested here, even where these leave the claim untested.
    (machine, finding), *others = sorted(found, key=lambda item: (not item[0].local, item[1].verdict == "untested"))
    left_out = [origin for of_experiment in machine.origins.values() for origin in of_experiment[1:]]
    elsewhere = {other.name: of_other.verdict for other, of_other in others}
    return Judged(name, claim, kind, finding, machine.name, elsewhere, left_out)


def _finding(claim: Claim, claims: Claims, varying: Mapping[str, list[str]], machine: Machine) -> Finding:
    """What the runs of one machine say: of each experiment those of the origin that speaks."""
    finding = verdict.of_claim(claim, claims.configurations, varying, machine.speaking)
    told = [sentence for found in machine.origins.values() if (sentence := who_speaks(found))]
    return replace(finding, why=" ".join([finding.why, *told]))


def _machines(
    tables: Mapping[str, Tables],
    of_kind: Callable[[str, Evidence, Hardware], pd.DataFrame],
    kind: Evidence,
    hardware: Hardware,
    of: tuple[str, ...],
) -> list[Machine]:
    """Each machine with its runs of these experiments that may decide, by their origin.

    First those whose runs were ingested here; of these the machine that has the most hardware threads, and then the
    most rounds that speak. What its runs say plays no part in that, so that no machine is chosen for its verdict.
    """
    runs = {name: of_kind(name, kind, hardware) for name in of}
    if not any(map(len, runs.values())):
        return []
    together = pd.concat([frame[[*MACHINE, "uid"]] for frame in runs.values()])
    ranked = []
    for key, part in together.groupby(MACHINE, dropna=False, sort=False):
        threads, uids = part["hardware_threads"].iloc[0], set(part["uid"])
        alone = len(uids) == len(together)  # the only machine: nothing to divide
        its = {name: origins(frame if alone else frame[frame["uid"].isin(uids)], name) for name, frame in runs.items()}
        n_rounds = sum(found[0].rounds for found in its.values() if found)
        machine = Machine(
            _named(part.iloc[0]),
            is_local(str(part["platform"].iloc[0])),
            its,
            {
                name: Candidates(found[0].runs if found else runs[name][:0], tables[name].measured)
                for name, found in its.items()
            },
        )
        ranked.append((not machine.local, 0 if pd.isna(threads) else -int(threads), -n_rounds, str(key), machine))
    return [machine for *_, machine in sorted(ranked, key=lambda row: row[:4])]


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
    missing = [name for name in runs if kind not in tables[name].evidences]
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
