"""The verdict on every claim for each kind of evidence, from the runs of a single machine and origin.

Runs of different origins are never pooled, and `analysis.versions` says which origin is used. Charts and tables use the
same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, get_args

import pandas as pd

from tmflow.analysis.versions import Origin, origins
from tmflow.base.errors import BadInput, unknown
from tmflow.base.text import listed, several
from tmflow.claims import verdict
from tmflow.claims.measures import Factors
from tmflow.claims.schema import Claim, Claims, Hardware, load_claims
from tmflow.claims.selection import DECIDING, Candidates, usable
from tmflow.claims.tables import Tables, load
from tmflow.claims.verdict import UNTESTED, Finding, Verdict
from tmflow.platform.facts import display_name, is_local, platform_facts, platform_sha256
from tmflow.runfile.record import NO_TIME
from tmflow.spec.trial import Evidence
from tmflow.store import platform_queries
from tmflow.store.frames import Source, connected
from tmflow.store.software_labels import DIGITS

KINDS: tuple[Evidence, ...] = get_args(Evidence)
# The columns that the runs of one machine share: platform, available hardware threads, emulator.
MACHINE = ["platform", "platform_name", "hardware_threads", "backend"]
NEEDS = {
    "rtm": "a machine with Intel's transactions (RTM)",
    "power": "a machine with POWER's transactions",
}


def provenance_note(experiment_origins: Sequence[Origin]) -> str | None:
    """A sentence on the origin used and those left out; None if there is only one."""
    if len(experiment_origins) < 2:
        return None
    several_definitions = len({origin.definition for origin in experiment_origins}) > 1
    descriptions = []
    for origin in experiment_origins:
        definition = f", definition {origin.definition[:DIGITS]}" if several_definitions else ""
        rounds = several(origin.rounds, "round") if origin.rounds else "no round with a result"
        descriptions.append(f"{rounds} by {origin.software}{definition}")
    speaks, *others = descriptions
    name = experiment_origins[0].experiment
    return f"Of {name} these are {speaks}; left out, because never pooled with them: {'; '.join(others)}."


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
            "report": self.claim.report,
            "source": self.claim.source,
            "reach": self.claim.reach,
            "restates": self.claim.restates,
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


def judge(claims: Claims, tables: Mapping[str, Tables], evidence: Evidence | None = None) -> list[Judged]:
    """Judge each claim by each kind of evidence that it accepts or that has runs.

    tables: those of every experiment that a claim names. evidence: judge by this kind only.
    """

    # Many claims share experiments and machines.
    @cache
    def usable_runs(experiment: str, kind: Evidence, hardware: Hardware) -> pd.DataFrame:
        runs = tables[experiment].runs
        return usable(runs, kind, hardware) if kind in tables[experiment].evidences else runs[:0]

    @cache
    def find_machines(kind: Evidence, hardware: Hardware, names: tuple[str, ...]) -> list[Machine]:
        return _find_machines({name: usable_runs(name, kind, hardware) for name in names}, tables)

    judged = []
    for name, claim in claims.claims.items():
        for kind in KINDS if evidence is None else [evidence]:
            if claim.verdict is not None:
                if kind in claim.evidence:
                    judged.append(Judged(name, claim, kind, Finding(claim.verdict, f"{claim.reason}"), None, {}))
            elif kind in claim.evidence:
                machines = find_machines(kind, claim.hardware, tuple(claim.experiments()))
                judged.append(_judge(name, claim, kind, machines, claims.configurations, tables))
            elif any(kind in tables[experiment].evidences for experiment in claim.experiments()):
                because = f"it requires {listed(claim.evidence)} runs"
                if kind == "emulated" and claim.is_about_time():
                    because = NO_TIME
                refused = Finding(UNTESTED, f"Evidence {kind} decides nothing here: {because}.")
                judged.append(Judged(name, claim, kind, refused, None, {}))
    return judged


def experiments(claims: Claims) -> list[str]:
    """The distinct experiments that claims name."""
    return list(dict.fromkeys(name for claim in claims.claims.values() for name in claim.experiments()))


def _judge(
    name: str,
    claim: Claim,
    kind: Evidence,
    machines: Sequence[Machine],
    configurations: Mapping[str, Factors],
    tables: Mapping[str, Tables],
) -> Judged:
    """Judge a claim by one kind of evidence, by the first origin of each experiment of each machine."""
    if not machines:
        return Judged(name, claim, kind, Finding(UNTESTED, _missing_runs_reason(claim, kind, tables)), None, {})
    varying = {experiment: tables[experiment].varying for experiment in claim.experiments()}
    pairs = []
    for machine in machines:
        finding = verdict.judge_claim(claim, configurations, varying, machine.speaking)
        notes = filter(None, map(provenance_note, machine.origins.values()))
        pairs.append((machine, replace(finding, why=" ".join([finding.why, *notes]))))
    # Contributed runs never replace runs that were ingested here, even if these leave the claim untested.
    (machine, finding), *others = sorted(pairs, key=lambda item: (not item[0].local, item[1].verdict == UNTESTED))
    left_out = [origin for of_experiment in machine.origins.values() for origin in of_experiment[1:]]
    elsewhere = {other.name: of_other.verdict for other, of_other in others}
    return Judged(name, claim, kind, finding, machine.name, elsewhere, left_out)


def _find_machines(runs: Mapping[str, pd.DataFrame], tables: Mapping[str, Tables]) -> list[Machine]:
    """Each machine with its runs that may decide, by origin; `runs` are those of all machines, by experiment.

    Machines whose runs were ingested here come first, then those with more hardware threads, then those with more
    rounds. The order does not depend on results, so that no machine is chosen for its verdict.
    """
    if not any(map(len, runs.values())):
        return []
    together = pd.concat([frame[[*MACHINE, "uid"]] for frame in runs.values()])
    ranked = []
    for key, part in together.groupby(MACHINE, dropna=False, sort=False):
        uids, threads = set(part["uid"]), part["hardware_threads"].iloc[0]
        is_only_machine = len(uids) == len(together)  # no need to split
        of_machine = {n: r if is_only_machine else r[r["uid"].isin(uids)] for n, r in runs.items()}
        by_origin = {name: origins(frame, name) for name, frame in of_machine.items()}
        speaking = {
            name: Candidates(first[0].runs if first else runs[name][:0], tables[name].measured)
            for name, first in by_origin.items()
        }
        local = is_local(str(part["platform"].iloc[0]))
        machine = Machine(_machine_name(part.iloc[0]), local, by_origin, speaking)
        n_rounds = sum(of_experiment[0].rounds for of_experiment in by_origin.values() if of_experiment)
        ranked.append((not local, 0 if pd.isna(threads) else -int(threads), -n_rounds, str(key), machine))
    return [machine for *_, machine in sorted(ranked, key=lambda row: row[:4])]


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
    of_other_data = "of other data than MNIST or synthetic data"
    for column, allowed, description in (("scale", ("full",), "quick"), ("dataset", DECIDING, of_other_data)):
        if not together[column].isin(allowed).any():
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

    platform: read only the runs of this platform, given by key (`tmflow.platform.facts`). joined: pool all sources of a
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


def this_machine(source: Source) -> str | None:
    """The key of this machine's platform; None if the database has no runs.

    Raises BadInput if it has runs, but none of this machine; the message names the platforms that it has.
    """
    facts = platform_facts()
    with connected(source) as connection:
        if (here := platform_queries.local_platform(connection, platform_sha256(facts))) is not None:
            return here
        others = platform_queries.platforms(connection)
    if others.empty:
        return None
    keys = listed([str(key) for key in others["platform"]])
    raise BadInput(
        f"this machine, {display_name(facts)}, has no runs in this database; --platform NAME judges those of another "
        f"machine or of a contribution: {keys}."
    )
