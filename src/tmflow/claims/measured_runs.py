"""The measured runs of this machine that may decide claims, without any verdict on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from tmflow.analysis.variance import trial_noise
from tmflow.analysis.versions import origins
from tmflow.base.canonical_json import sha256_of
from tmflow.claims.measures import Factors
from tmflow.claims.origins import experiments
from tmflow.claims.power import Spread, measured_spreads
from tmflow.claims.schema import Check, Claims, Hardware
from tmflow.claims.selection import Candidates, Missing, Selected, select, usable
from tmflow.claims.tables import Tables, load
from tmflow.native import registry
from tmflow.platform.facts import platform_facts, platform_sha256
from tmflow.platform.software import software
from tmflow.store import queries
from tmflow.store.frames import Source, connected
from tmflow.store.platform_queries import local_platform
from tmflow.store.run_filter import DEFINITION, RunFilter
from tmflow.study import campaign
from tmflow.study.plan import Plan


class MeasuredRuns:
    """Measured runs at full scale of one machine, with this number of usable hardware threads.

    tables: of every experiment that a claim names; empty for a machine without runs.
    """

    def __init__(self, tables: Mapping[str, Tables], configurations: Mapping[str, Factors], processors: int) -> None:
        self._tables = tables
        self._configurations = configurations
        self._processors = processors
        self._candidates: dict[tuple[str, Hardware], Candidates] = {}

    def candidates(self, experiment: str, hardware: Hardware) -> Candidates:
        """The runs of an experiment with the origin that verdicts use, with any status; there may be none."""
        key = (experiment, hardware)
        if key not in self._candidates:
            table = self._tables[experiment]
            runs = usable(table.runs, "measured", hardware)
            runs = runs[(runs["hardware_threads"] == self._processors).fillna(False).to_numpy(dtype=bool)]
            parts = origins(runs, experiment)
            self._candidates[key] = Candidates(parts[0].runs if parts else runs, table.measured)
        return self._candidates[key]

    def only(self, uids: Collection[str]) -> MeasuredRuns:
        """The same machine's runs with these uids."""
        tables = {
            name: replace(table, runs=table.runs[table.runs["uid"].isin(uids)].reset_index(drop=True))
            for name, table in self._tables.items()
        }
        return MeasuredRuns(tables, self._configurations, self._processors)

    def select(self, check: Check, hardware: Hardware) -> Selected:
        """The curves of a check. Raises `selection.Missing` as `selection.select` does."""
        if check.experiment not in self._tables:
            raise Missing("this machine has no run")
        varying = self._tables[check.experiment].varying
        return select(check, self._configurations, varying, self.candidates(check.experiment, hardware))

    def spreads(self, check: Check, selected: Selected, hardware: Hardware) -> list[Spread]:
        """The spreads of the statements of a check, given its curves."""
        return measured_spreads(check.predicate, selected.curves, *self._trial_noise(check, hardware))

    def _trial_noise(self, check: Check, hardware: Hardware) -> tuple[float, float]:
        """As `variance.trial_noise`, of the points that a check compares, on the log for speeds.

        0 for a spread, of which a round has one value, whatever its repeats are.
        """
        if check.predicate.measure.is_spread:
            return 0.0, 1.0
        runs, predicate = self.candidates(check.experiment, hardware), check.predicate
        values = runs.values(predicate.measure)
        usual = runs.ok & runs.fits & ~np.isnan(values)
        curve = np.full(len(values), -1)
        for number, name in enumerate(predicate.of):
            curve[runs.of_check(check, self._configurations[name]) & usual] = number
        compared = curve >= 0
        point = curve[compared] * (int(runs.threads.max()) + 1) + runs.threads[compared]
        kept = np.log(values[compared]) if predicate.measure.is_speed else values[compared]
        return trial_noise(kept, point, runs.rounds[compared])


def load_measured_runs(source: Source, claims: Claims, processors: int) -> MeasuredRuns:
    """The measured runs of this machine with so many usable hardware threads; there may be none."""
    with connected(source) as connection:
        platform = local_platform(connection, platform_sha256(platform_facts()))
    tables = {} if platform is None else load(source, experiments(claims), [platform])
    return MeasuredRuns(tables, claims.configurations, processors)


def load_uids_joined(source: Source, claims: Claims, plan: Plan) -> frozenset[str]:
    """The uids of the runs that the next rounds of the plan are pooled with: this definition and this software.

    If the checkout has uncommitted changes, only the runs of the unfinished campaign are of this software.
    """
    names = [name for name in experiments(claims) if name in plan.experiments]
    definitions = [sha256_of(plan.study.definition(name, plan.scale, "mnist"))[:DEFINITION] for name in names]
    current, build = campaign.unfinished(plan.results, plan.scale), registry.build_info()
    here = software(compiler=build.compiler, cflags=build.cflags)
    only = RunFilter(experiments=names, definitions=definitions, scales=[plan.scale])
    return queries.uids_of_software(source, only, here, current.uid if current else None)


def reason_barred(check: Check, selected: Selected) -> str | None:
    """Why the check cannot be shown to hold, however many rounds these runs get; None if it can."""
    if len(selected.failed):
        return f"runs of {check.experiment} failed"
    if len(selected.diverged) and not check.predicate.diverged_agrees:
        return f"runs of {check.experiment} diverged"
    return None
