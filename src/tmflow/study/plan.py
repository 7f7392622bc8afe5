"""The plan: which rounds of which experiments there are, where their run files lie, what they will cost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.platform.environment import cpus_allowed
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef, ExperimentRef, Run
from tmflow.runner.job import RoundJob
from tmflow.runner.journal import Journal
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
    """The study at one scale, laid out in a results folder."""

    study: Study
    scale: Scale
    results: Path
    processors: int = field(default_factory=processors)

    @property
    def experiments(self) -> list[str]:
        """All experiments of the scale: also those that draw on the runs of others."""
        return self.study.at(self.scale)

    def source(self, experiment: str) -> str:
        """The experiment whose runs it draws on: itself, or another."""
        return self.study.source(experiment)

    def folder(self, experiment: str) -> Path:
        """Where the rounds of an experiment lie: another definition is another folder, so nothing is overwritten."""
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
        """How many rounds the experiment gets, those included that have been added so far."""
        its_campaign = campaign.load(self.results, self.scale)
        allotted = its_campaign.rounds.get(self._path(experiment), 0) if its_campaign else 0
        return max(self.study.rounds_of(experiment, self.scale), min(allotted, self.rounds_at_most(experiment)))

    def allot(self, its_campaign: campaign.Campaign, rounds: Mapping[str, int]) -> None:
        """Remember in the campaign that these experiments get so many rounds."""
        its_campaign.rounds |= {self._path(name): number for name, number in rounds.items()}
        campaign.save(self.results, its_campaign)

    def rounds_at_most(self, experiment: str) -> int:
        """How many rounds it may get."""
        return self.study.rounds_at_most_of(experiment, self.scale)

    def run_files(self, experiment: str) -> list[Path]:
        """The run file of every round of an experiment, existing or not; none where it draws on another's runs."""
        if self.source(experiment) != experiment:
            return []
        rounds = self.rounds(experiment)
        return [self.folder(experiment) / f"round-{number:03}.jsonl" for number in range(1, rounds + 1)]

    @property
    def first(self) -> list[str]:
        """The experiments that config.yaml puts first, or those whose runs they draw on; of this scale."""
        return [name for name in dict.fromkeys(map(self.source, self.study.first)) if name in self.experiments]

    @cached_property
    def rounds_in_order(self) -> list[tuple[str, int]]:
        """Every round, as experiment and number, in the order in which they are measured.

        First come those of the experiments in `first`, then those of the others; in either group the first round of
        each experiment, then the second of each, and so on. So a study that is stopped has as many rounds of each as
        there was time for.
        """
        others = [name for name in self.experiments if name not in self.first]
        return [round_ for group in (self.first, others) for round_ in self._by_number(group)]

    def _by_number(self, experiments: Sequence[str]) -> list[tuple[str, int]]:
        rounds = [(name, n) for name in experiments for n in range(1, len(self.run_files(name)) + 1)]
        return sorted(rounds, key=lambda round_: round_[1])  # which keeps the order of the experiments

    def priority(self, experiment: str, number: int) -> int:
        """Snakemake's priority of a round: of those that are ready, it runs the highest; 0 if it is not planned."""
        order, place = self.rounds_in_order, (experiment, number)
        return len(order) - order.index(place) if place in order else 0

    def trials(self, experiment: str) -> int:
        """Points times rounds."""
        return len(self.points(experiment, "mnist")) * len(self.run_files(experiment))

    def points(self, experiment: str, dataset: Dataset) -> list[TrialSpec]:
        """Those that this machine is to run."""
        return self.study.points(experiment, self.scale, dataset, self.processors)

    def job(self, experiment: str, number: int, its_campaign: CampaignRef) -> RoundJob:
        """A round, with the dataset that the study found."""
        if experiment not in self.experiments or not 1 <= number <= len(self.run_files(experiment)):
            raise BadInput(f"config.yaml has no round {number} of experiment '{experiment}' at scale {self.scale}.")
        dataset = resolved_dataset(self.results)
        definition = self.study.definition(experiment, self.scale, dataset)
        return RoundJob(
            campaign=its_campaign,
            experiment=ExperimentRef(
                name=experiment, scale=self.scale, definition_sha256=sha256_of(definition), definition=definition
            ),
            number=number,
            points=self.points(experiment, dataset),
            trial_timeout_s=self.study.trial_timeout_s,
            run_file=self.run_files(experiment)[number - 1],
        )

    def finished_runs(self, experiment: str) -> Iterator[Run]:
        """What is on disk of an experiment: complete rounds, and the journals of interrupted ones."""
        for path in self.run_files(experiment):
            if path.exists():
                yield from record.read(path)
            else:
                yield from Journal(path).runs

    @cached_property
    def _costs(self) -> Costs:
        return Costs(self.results)

    @property
    def past_runs(self) -> Set[str]:
        """The runs that the estimates come from, by uid."""
        return self._costs.uids

    def estimated_trial_s(self, point: TrialSpec) -> float:
        """Seconds that a trial of the point will take; from past runs, else guessed."""
        return self._costs.trial_s(point)

    def estimated_s(self, experiment: str) -> float:
        """Seconds that all of an experiment will take, figures and table included; from past runs, else guessed."""
        rounds = len(self.run_files(experiment))
        return rounds * self._costs.round_s(self.points(experiment, "mnist")) + OUTPUTS_S


def dataset_path(results: Path) -> Path:
    """Where the data step says which dataset the study uses."""
    return results / "data" / "dataset.json"


def resolved_dataset(results: Path) -> Dataset:
    """The dataset that the data step settled on."""
    path = dataset_path(results)
    if not path.exists():
        raise BadInput(f"{path} is missing: run the study's data step first (`tmflow study run` does).")
    name: Dataset = json.loads(path.read_text(encoding="utf-8"))["name"]
    return name
