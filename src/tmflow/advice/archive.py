"""The runs of an advice: run files of the results folder, and the database."""

from __future__ import annotations

import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tmflow.advice.candidates import Way
from tmflow.advice.measurement import Measurement, Slice, Subject
from tmflow.base.documents import sentence
from tmflow.base.errors import BadInput
from tmflow.base.files import require_writable
from tmflow.base.paths import results_dir
from tmflow.native import automatic
from tmflow.native.automatic import AUTO, Consistency
from tmflow.runfile.record import Lost, Run
from tmflow.runner.round import facts_of_process
from tmflow.spec.factors import OWN_DATA, Measures
from tmflow.spec.models import OWN_MODEL
from tmflow.spec.trial import TrialSpec
from tmflow.store import engine, schema
from tmflow.study.adhoc import experiment_of, new_campaign, store_campaign

EXPERIMENT = "advise"


class Archive:
    """Where the runs of one advice will be kept; made before the first of them, so that no minute is lost.

    Keras's own optimizer has no strategy, so it has no runs.
    """

    def __init__(self, subject: Subject, workers: int, consistency: Consistency) -> None:
        """Raises BadInput if a run cannot hold the subject, or neither folder nor database can take runs."""
        self._results = results_dir()
        self.database = engine.url_from_env(self._results / "study.db")
        require_writable(self._results)
        schema.require_usable(self.database)
        self._consistency, self._factors = consistency, subject.factors()
        self._spec(Way("lock", workers), workers, "usual")
        factors = {"model": OWN_MODEL, **self._factors}
        definition = {"factors": factors, "workers": workers, "consistency": consistency}
        self._experiment = experiment_of(EXPERIMENT, definition)
        self._campaign = new_campaign()

    def store(self, measured: Measurement) -> Path:
        """Store a run for each slice of a training by tmflow; return the folder of the run files.

        Raises BadInput if a folder or the database refuses them; the sentence names the run files, if they are written.
        """
        facts = facts_of_process()
        rounds: dict[int, list[Run]] = defaultdict(list)
        for one in measured.slices:
            if one.way.strategy is not None and one.way.step == "whole":
                rounds[one.round].append(self._run(one, facts))
        return store_campaign(self.database, rounds, keep_in=self._results)

    def _run(self, measured: Slice, facts: dict[str, Any]) -> Run:
        spec = self._spec(measured.way, measured.steps, "usual" if measured.lost is None else "full")
        return Run(
            uid=str(uuid.uuid4()),
            campaign=self._campaign,
            experiment=self._experiment,
            round=measured.round,
            ordinal=measured.ordinal,
            order_seed=measured.round - 1,
            trial_seed=spec.seed + measured.round - 1,
            resumed=False,
            started_at_utc=measured.started_at_utc,
            spec=spec,
            dataset_sha256=None,
            evidence=spec.evidence,
            time_domain="wall",
            status="ok",
            machine=measured.machine,
            loop_s=measured.seconds,
            total_s=measured.total_s,
            lost=[Lost(**row) for row in measured.lost or ()],
            **facts,
        )

    def _spec(self, way: Way, steps: int, measures: Measures) -> TrialSpec:
        """The spec of a way. Raises BadInput for a model or data that no spec can describe."""
        strategy = automatic.resolve(str(way.strategy), self._consistency if way.strategy == AUTO else None)
        factors = {
            "model": OWN_MODEL, "dataset": OWN_DATA, **self._factors,
            "strategy": strategy.name, **strategy.parameters,
            "threads": way.workers, "iterations": steps, "measures": measures,
        }  # fmt: skip
        if self._factors["driver"] == "keras":
            factors["steps_per_call"] = way.per_call
        try:
            return TrialSpec.model_validate(factors)
        except ValidationError as error:
            raise _as_bad_input(error) from error


def _as_bad_input(error: ValidationError) -> BadInput:
    first = error.errors()[0]
    if first["type"] == "string_too_long":
        return BadInput("the model has too many variables for a run: their shapes are a text of more than 8,000 signs.")
    return sentence(error, "the runs cannot be saved")
