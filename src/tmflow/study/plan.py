"""The plan: which rounds of which experiments there are, where their run files lie, what they will cost."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tmflow.errors import BadInput
from tmflow.runner import runfile
from tmflow.runner.job import RoundJob
from tmflow.runner.journal import Journal
from tmflow.runner.runfile import CampaignRef, ExperimentRef, Run
from tmflow.spec import Dataset, TrialSpec, sha256_of
from tmflow.study import campaign
from tmflow.study.config import Scale, Study
from tmflow.train.models import MODELS

GUESSED_ROUND_S = 12.0  # on 4 cores of an Intel Emerald Rapids, until runs say better, as the guesses of the models


@dataclass(frozen=True)
class Plan:
    """The study at one scale, laid out in a results folder."""

    study: Study
    scale: Scale
    results: Path

    @property
    def experiments(self) -> list[str]:
        return list(self.study.experiments)

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
        """The run file of every round of an experiment, existing or not."""
        rounds = self.rounds(experiment)
        return [self.folder(experiment) / f"round-{number:03}.jsonl" for number in range(1, rounds + 1)]

    def trials(self, experiment: str) -> int:
        """Points times rounds."""
        return len(self.points(experiment, "mnist")) * self.rounds(experiment)

    def points(self, experiment: str, dataset: Dataset) -> list[TrialSpec]:
        return self.study.points(experiment, self.scale, dataset)

    def job(self, experiment: str, number: int, its_campaign: CampaignRef) -> RoundJob:
        """A round, with the dataset that the study found."""
        if experiment not in self.study.experiments or not 1 <= number <= len(self.run_files(experiment)):
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
                yield from runfile.read(path)
            else:
                yield from Journal(path).runs

    def estimated_s(self, experiment: str) -> float:
        """Seconds that the whole experiment will take: from its finished runs on this machine, else a guess."""
        runs = [run for run in self.finished_runs(experiment) if run.total_s is not None]
        rounds = self.rounds(experiment)
        if runs:
            trial_s = statistics.mean(run.total_s for run in runs if run.total_s is not None)
            return rounds * GUESSED_ROUND_S + self.trials(experiment) * trial_s
        points = self.points(experiment, "mnist")
        trials_s = sum(MODELS[p.model].trial_s + p.iterations * MODELS[p.model].step_s for p in points)
        return rounds * (GUESSED_ROUND_S + trials_s)


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
