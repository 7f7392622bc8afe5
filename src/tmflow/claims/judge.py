"""The verdict on every claim for each kind of evidence, from the runs of a single machine and origin."""

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
from tmflow.claims.provenance import Origin, origins, provenance_note
from tmflow.claims.schema import Claim, Claims, Hardware, load_claims
from tmflow.claims.selection import usable
from tmflow.claims.verdict import Finding, Verdict
from tmflow.platform.key import is_local
from tmflow.runfile.record import NO_TIME
from tmflow.spec.trial import Evidence
from tmflow.store import platform_queries
from tmflow.store.frames import Source

KINDS: tuple[Evidence, ...] = get_args(Evidence)
# The columns that the runs of one machine share: platform, available hardware threads, emulator.
MACHINE = ["platform", "platform_name", "hardware_threads", "backend"]
NEEDS = {
    "rtm": "a machine with Intel's transactions (RTM)",
    "power": "a machine with POWER's transactions",
}


@dataclass(frozen=True)
class Judged:
    """The verdict on a claim by one kind of evidence."""

    id: str
    claim: Claim
    evidence: Evidence
    finding: Finding
    machine: str | None
    """The machine whose runs give the finding."""
    elsewhere: dict[str, Verdict]
    """The verdicts of other machines and of contributions, by name."""
    left_out: list[Origin] = field(default_factory=list)
    """The machine's runs of other definitions or software versions."""

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
            "runs": _summarise_runs(self.finding.runs),
            "left_out": [origin.as_json() for origin in self.left_out],
            "source": self.claim.source,
            "statement": self.claim.statement,
            "explanation": self.claim.explanation,
        }


class Machine(NamedTuple):
    """A machine with runs that may decide a claim, and those runs by experiment."""

    name: str
    local: bool
    """Whether its runs were ingested here, rather than contributed."""
    origins: dict[str, list[Origin]]
    """The origins of each experiment's runs; the first is the one judged."""
    speaking: dict[str, Candidates]


Machines = Callable[[Evidence, Hardware, tuple[str, ...]], list[Machine]]


def judge(claims: Claims, tables: Mapping[str, Tables], evidence: Evidence | None = None) -> list[Judged]:
    """Judge each claim by each kind of evidence that it accepts or that has runs.

    tables: those of every experiment that a claim names. evidence: judge by this kind only.
    """

    @cache  # most claims look at the same runs
    def of_kind(name: str, kind: Evidence, hardware: Hardware) -> pd.DataFrame:
        experiment_tables = tables[name]
        return (
            usable(experiment_tables.runs, kind, hardware)
            if kind in experiment_tables.evidences
            else experiment_tables.runs[:0]
        )

    machines = cache(partial(_machines, tables, of_kind))
    return [
        _judge_claim(name, claim, kind, claims, tables, machines)
        for name, claim in claims.claims.items()
        for kind in KINDS
        if evidence in (None, kind) and (kind in claim.evidence or _has(claim, tables, kind))
    ]


def experiments(claims: Claims) -> list[str]:
    """The distinct experiments that claims name."""
    return list(dict.fromkeys(name for claim in claims.claims.values() for name in claim.experiments()))


def _has(claim: Claim, tables: Mapping[str, Tables], kind: Evidence) -> bool:
    return any(kind in tables[name].evidences for name in claim.experiments())


def _judge_claim(
    name: str, claim: Claim, kind: Evidence, claims: Claims, tables: Mapping[str, Tables], machines: Machines
) -> Judged:
    if kind not in claim.evidence:
        because = (
            NO_TIME if kind == "emulated" and claim.is_about_time() else f"it requires {listed(claim.evidence)} runs"
        )
        return Judged(
            name, claim, kind, Finding("untested", f"Evidence {kind} decides nothing here: {because}."), None, {}
        )
    varying = {name: tables[name].varying for name in claim.experiments()}
    pairs = [
        (machine, _finding(claim, claims, varying, machine))
        for machine in machines(kind, claim.hardware, tuple(claim.experiments()))
    ]
    if not pairs:
        return Judged(name, claim, kind, Finding("untested", _missing_runs_reason(claim, kind, tables)), None, {})
    # Contributed runs never replace runs that were ingested here, even if these leave the claim untested.
    (machine, finding), *others = sorted(pairs, key=lambda item: (not item[0].local, item[1].verdict == "untested"))
    left_out = [origin for of_experiment in machine.origins.values() for origin in of_experiment[1:]]
    elsewhere = {other.name: of_other.verdict for other, of_other in others}
    return Judged(name, claim, kind, finding, machine.name, elsewhere, left_out)


def _finding(claim: Claim, claims: Claims, varying: Mapping[str, list[str]], machine: Machine) -> Finding:
    """The finding of one machine's runs, using the first origin of each experiment."""
    finding = verdict.judge_claim(claim, claims.configurations, varying, machine.speaking)
    notes = [
        sentence for experiment_origins in machine.origins.values() if (sentence := provenance_note(experiment_origins))
    ]
    return replace(finding, why=" ".join([finding.why, *notes]))


def _machines(
    tables: Mapping[str, Tables],
    of_kind: Callable[[str, Evidence, Hardware], pd.DataFrame],
    kind: Evidence,
    hardware: Hardware,
    of: tuple[str, ...],
) -> list[Machine]:
    """Each machine with its runs of these experiments that may decide, by origin.

    Machines whose runs were ingested here come first, then those with more hardware threads, then those with more
    rounds. The order does not depend on results, so that no machine is chosen for its verdict.
    """
    runs = {name: of_kind(name, kind, hardware) for name in of}
    if not any(map(len, runs.values())):
        return []
    together = pd.concat([frame[[*MACHINE, "uid"]] for frame in runs.values()])
    candidates = []
    for key, part in together.groupby(MACHINE, dropna=False, sort=False):
        threads, uids = part["hardware_threads"].iloc[0], set(part["uid"])
        is_only_machine = len(uids) == len(together)  # the only machine: no need to split
        origins_by_experiment = {
            name: origins(frame if is_only_machine else frame[frame["uid"].isin(uids)], name)
            for name, frame in runs.items()
        }
        n_rounds = sum(
            experiment_origins[0].rounds for experiment_origins in origins_by_experiment.values() if experiment_origins
        )
        machine = Machine(
            _machine_name(part.iloc[0]),
            is_local(str(part["platform"].iloc[0])),
            origins_by_experiment,
            {
                name: Candidates(
                    experiment_origins[0].runs if experiment_origins else runs[name][:0], tables[name].measured
                )
                for name, experiment_origins in origins_by_experiment.items()
            },
        )
        candidates.append((not machine.local, 0 if pd.isna(threads) else -int(threads), -n_rounds, str(key), machine))
    return [machine for *_, machine in sorted(candidates, key=lambda row: row[:4])]


def _machine_name(run: pd.Series) -> str:
    """The display name of a machine, with the emulated machine if there is one."""
    threads = run["hardware_threads"]
    usable_threads = (
        "an unknown number of hardware threads" if pd.isna(threads) else several(threads, "hardware thread")
    )
    name = f"{run['platform_name']} ({run['platform']}), {usable_threads}"
    return name if pd.isna(run["backend"]) else f"{run['backend']} on {name}"


def _missing_runs_reason(claim: Claim, kind: Evidence, tables: Mapping[str, Tables]) -> str:
    """The reason why no run may decide a claim."""
    runs = {name: tables[name].runs for name in claim.experiments()}
    missing = [name for name in runs if kind not in tables[name].evidences]
    if missing:
        where = f" on {NEEDS[claim.hardware]}" if claim.hardware in NEEDS else ""
        return f"There is no {kind} run of {listed(missing)}{where}."
    together = pd.concat(list(runs.values()))
    together = together[together["evidence"] == kind]
    for column, required, description in (("scale", "full", "quick"), ("dataset", "mnist", "of other data than MNIST")):
        if not (together[column] == required).any():
            return (
                f"There are only runs that are {description}, which decide nothing: experiments {listed(list(runs))}."
            )
    return f"It needs {NEEDS.get(claim.hardware, 'other runs')}; there are runs of other machines only."


def _summarise_runs(runs: Iterable[pd.DataFrame]) -> dict[str, Any]:
    """Summarise runs: their number, disturbed and resumed ones, experiments, campaigns, rounds and origins."""
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
    """Judge every claim of data/claims.yaml, or only `claims`, by every kind of evidence or only `evidence`.

    platform: read only the runs of this platform, given by key (`tmflow.platform.key`). joined: pool all sources of a
    platform. Raises BadInput if the platform has no run, and for an unknown claim.
    """
    if platform is not None:
        keys = list(platform_queries.platforms(source, joined=joined)["platform"])
        if platform not in keys:
            raise unknown("platform", platform, keys)
    all_claims = load_claims()
    if claims is not None:
        for name in claims:
            if name not in all_claims.claims:
                raise unknown("claim", name, all_claims.claims)
        chosen = {name: claim for name, claim in all_claims.claims.items() if name in claims}
        all_claims = all_claims.model_copy(update={"claims": chosen})
    tables = load(source, experiments(all_claims), None if platform is None else [platform], joined=joined)
    return judge(all_claims, tables, evidence)
