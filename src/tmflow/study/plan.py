"""The plan: the rounds of the experiments, the paths of their run files, and their estimated cost."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tmflow.base.errors import BadInput
from tmflow.platform.facts import cpus_allowed
from tmflow.runfile import lines, record
from tmflow.runfile.record import CampaignRef, Run
from tmflow.runner.journal import Journal
from tmflow.runner.supervisor import RoundJob
from tmflow.spec.factors import Dataset
from tmflow.spec.trial import TrialSpec
from tmflow.study import campaign
from tmflow.study.config import Scale, Study
from tmflow.study.cost_model import OUTPUTS_S, Costs


def processors() -> int:
    """Hardware threads that this process may use."""
    return cpus_allowed() or os.cpu_count() or 1


@dataclass(frozen=True)
class Plan:
    """The study at one scale in a results folder."""

    study: Study
    scale: Scale
    results: Path
    processors: int = field(default_factory=processors)

    @property
    def experiments(self) -> list[str]:
        """All experiments of the scale, including those that use the runs of others."""
        return self.study.at(self.scale)

    def source(self, experiment: str) -> str:
        """The experiment whose runs the experiment uses: itself, or another."""
        return self.study.source(experiment)

    def folder(self, experiment: str) -> Path:
        """The folder of an experiment's rounds; each definition has its folder, so nothing is overwritten."""
        return campaign.folder(self.results, self.scale) / self._path(experiment)

    def definition_id(self, experiment: str) -> str:
        """A short name of the definition, for paths: 12 hex digits."""
        return self.study.definition_id(experiment, self.scale)

    def _path(self, experiment: str) -> str:
        return f"{experiment}/{self.definition_id(experiment)}"

    def is_measured(self) -> bool:
        """Whether every round of every experiment has its run file."""
        return all(path.exists() for experiment in self.experiments for path in self.run_files(experiment))

    def rounds(self, experiment: str) -> int:
        """The number of rounds of the experiment, including rounds that were added."""
        planned = self.study.rounds_of(experiment, self.scale)
        if (latest := campaign.load(self.results, self.scale)) is None:
            return planned
        path = self._path(experiment)
        adaptive = min(latest.rounds.get(path, 0), self.rounds_at_most(experiment))
        return max(planned, adaptive, latest.claim_rounds.get(path, 0))

    def allot(self, its_campaign: campaign.Campaign, rounds: Mapping[str, int]) -> None:
        """Store the number of rounds of these experiments in the campaign."""
        its_campaign.rounds |= {self._path(name): number for name, number in rounds.items()}
        campaign.save(self.results, its_campaign)

    def allot_to_claims(self, its_campaign: campaign.Campaign, rounds: Mapping[str, int]) -> None:
        """Store the number of rounds of these experiments, without a limit, in the campaign."""
        its_campaign.claim_rounds |= {self._path(name): number for name, number in rounds.items()}
        campaign.save(self.results, its_campaign)

    def rounds_at_most(self, experiment: str) -> int:
        """The most rounds that the experiment gets while an interval is too wide."""
        return self.study.rounds_at_most_of(experiment, self.scale)

    def run_files(self, experiment: str) -> list[Path]:
        """The run file of every round, existing or not; none if the experiment uses the runs of another."""
        if self.source(experiment) != experiment:
            return []
        rounds = self.rounds(experiment)
        return [self.folder(experiment) / f"round-{number:03}.jsonl" for number in range(1, rounds + 1)]

    @property
    def first(self) -> list[str]:
        """The experiments of this scale that config.yaml puts first, or the experiments whose runs they use."""
        return [name for name in dict.fromkeys(map(self.source, self.study.first)) if name in self.experiments]

    @cached_property
    def rounds_in_order(self) -> list[tuple[str, int]]:
        """Every round, as experiment and number, in the order in which they are measured.

        The rounds of the experiments in `first` come before all others; in both groups, the first round of each
        experiment comes before the second of each, and so on. So a study that is stopped early has about the same
        number of rounds of each experiment in a group.
        """
        rest = [name for name in self.experiments if name not in self.first]
        return [round_ for group in (self.first, rest) for round_ in self._by_number(group)]

    def _by_number(self, experiments: Sequence[str]) -> list[tuple[str, int]]:
        rounds = [(name, n) for name in experiments for n in range(1, len(self.run_files(name)) + 1)]
        return sorted(rounds, key=lambda round_: round_[1])  # stable: keeps the order of the experiments

    def priority(self, experiment: str, number: int) -> int:
        """Snakemake's priority of a round: among ready rounds it runs the highest first; 0 if not planned."""
        order, place = self.rounds_in_order, (experiment, number)
        return len(order) - order.index(place) if place in order else 0

    def trials(self, experiment: str) -> int:
        """The number of trials: points times rounds times repeats."""
        return len(self.points(experiment, "mnist")) * sum(self._repeats(experiment))

    def repeats(self, experiment: str) -> int:
        """How often a round of the experiment runs each point from now on."""
        return self.study.repeats_of(experiment, self.scale)

    def _repeats(self, experiment: str) -> list[int]:
        """The repeats of each round. A measured round keeps those that it has, because it is not measured again."""
        planned = self.repeats(experiment)
        return [lines.repeats_in(path) if path.exists() else planned for path in self.run_files(experiment)]

    def points(self, experiment: str, dataset: Dataset) -> list[TrialSpec]:
        """The points that this machine runs."""
        return self.study.points(experiment, self.scale, dataset, self.processors)

    def job(self, experiment: str, number: int, its_campaign: CampaignRef) -> RoundJob:
        """The job of a round, with the dataset that the data step chose."""
        if experiment not in self.experiments or not 1 <= number <= len(self.run_files(experiment)):
            raise BadInput(f"config.yaml has no round {number} of experiment '{experiment}' at scale {self.scale}.")
        dataset = resolved_dataset(self.results)
        return RoundJob(
            campaign=its_campaign,
            experiment=self.study.reference(experiment, self.scale, dataset),
            number=number,
            points=self.points(experiment, dataset),
            repeats=self.repeats(experiment),
            trial_timeout_s=self.study.trial_timeout_s,
            run_file=self.run_files(experiment)[number - 1],
        )

    def finished_runs(self, experiment: str) -> Iterator[Run]:
        """The runs of an experiment on disk: complete rounds, and the journals of interrupted rounds."""
        for path in self.run_files(experiment):
            journal = [] if path.exists() else Journal(path).runs
            # A round that has just ended has no journal any more.
            yield from record.read(path) if path.exists() else journal

    @cached_property
    def costs(self) -> Costs:
        """The cost model, from the past runs of the results folder."""
        return Costs(self.results)

    def estimated_s(self, experiment: str) -> float:
        """Estimated seconds of an experiment with its figures and table, from past runs or guessed."""
        rounds, points = Counter(self._repeats(experiment)), self.points(experiment, "mnist")
        return sum(n * self.costs.round_s(points, repeats) for repeats, n in rounds.items()) + OUTPUTS_S


def dataset_path(results: Path) -> Path:
    """The file in which the data step records the dataset of the study."""
    return results / "data" / "dataset.json"


def resolved_dataset(results: Path) -> Dataset:
    """The dataset that the data step chose. Raises BadInput if that step has not run."""
    path = dataset_path(results)
    if not path.exists():
        raise BadInput(f"{path} is missing: run the study's data step first (`tmflow study run` does).")
    name: Dataset = json.loads(path.read_text(encoding="utf-8"))["name"]
    return name
