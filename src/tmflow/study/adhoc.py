"""Training outside the study: one point, some rounds; the caller decides what to keep."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from tmflow.base.canonical_json import sha256_of
from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.base.files import write_bytes, writing
from tmflow.base.locks import machine_to_itself
from tmflow.runfile import record
from tmflow.runfile.record import CampaignRef, ExperimentRef, Run
from tmflow.runner.journal import Journal
from tmflow.runner.round import MakeVariant, RoundRunner
from tmflow.runner.supervisor import RoundJob, run_round
from tmflow.spec.trial import TrialSpec
from tmflow.store.ingest import ingest

TIMEOUT_S = 24 * 3600.0  # long, because the user is watching


def check_rounds(rounds: int) -> None:
    """Raise BadInput unless the number of rounds is from 1 to 1000."""
    if not 1 <= rounds <= 1000:
        raise BadInput(f"rounds is {rounds}, but should be from 1 to 1000.")


def train_rounds(spec: TrialSpec, rounds: int, folder: Path, own_data: Path | None = None) -> Iterator[Run]:
    """Train with `spec` in `rounds` fresh processes, one after another; write the run files to `folder`.

    own_data: the file of dataset `own`.
    """
    for runs in rounds_of("train", [spec], {"factors": spec.identity()}, rounds, folder, own_data):
        yield from runs


def store_round(database: URL, folder: Path, number: int, *, keep_in: Path) -> None:
    """Store the run file of a round from `folder` in the database, and copy it to the results folder `keep_in`.

    The copy is kept because run files are the only source from which the database can be rebuilt. Raises BadInput,
    naming the copy, if the database does not accept the run file.
    """
    path = _run_file(folder, number)
    campaign = next(record.read(path)).campaign
    kept = _run_file(_kept_folder(keep_in, "train", campaign), number)
    write_bytes(kept, path.read_bytes())
    try:
        with machine_to_itself():  # no timed work starts meanwhile
            ingest(database, [kept])
    except BadInput as error:
        raise BadInput(f"the run is in {kept}, but not in the database: {error}") from error


def store_campaign(database: URL, rounds: Mapping[int, Sequence[Run]], *, keep_in: Path) -> Path:
    """Store the runs of a campaign of one experiment, by the numbers of their rounds; return their folder in `keep_in`.

    The folder appears with all its run files at once. The caller holds the lock of timed work, so that none starts
    meanwhile. Raises BadInput if the folder cannot be written, and, naming it, if the database does not accept the
    runs.
    """
    first = next(run for runs in rounds.values() for run in runs)
    kept = _kept_folder(keep_in, first.experiment.name, first.campaign)
    with writing(kept):
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder of runs, where nobody takes the files for those of a study if this process is killed.
        with tempfile.TemporaryDirectory(prefix=f".{first.experiment.name}-", dir=keep_in) as folder:
            new = Path(folder) / "runs"
            for number, runs in rounds.items():
                record.write(_run_file(new, number), runs)
            new.rename(kept)
    try:
        ingest(database, [_run_file(kept, number) for number in rounds])
    except BadInput as error:
        raise BadInput(f"the runs are in {kept}, but not in the database: {error}") from error
    return kept


def _kept_folder(keep_in: Path, experiment: str, campaign: CampaignRef) -> Path:
    return keep_in / "runs" / "adhoc" / experiment / campaign.uid


def _run_file(folder: Path, number: int) -> Path:
    return folder / f"round-{number:03}.jsonl"


def rounds_of(
    name: str,
    points: list[TrialSpec],
    definition: dict[str, Any],
    rounds: int,
    folder: Path,
    own_data: Path | None = None,
) -> Iterator[list[Run]]:
    """Run all points in shuffled order in each round, a fresh process per environment; yield the runs of each round."""
    for job in _jobs(name, points, definition, rounds, folder, own_data):
        run_round(job)
        yield list(record.read(job.run_file))


def train_here(
    spec: TrialSpec, definition: dict[str, Any], folder: Path, make: MakeVariant, resumed: bool = False
) -> Run:
    """Train once in this process, with a variant made by `make`; write the run file to `folder`.

    resumed: the training continues an interrupted one, and the run says so.
    """
    (job,) = _jobs("train", [spec], {"factors": spec.identity(), **definition}, 1, folder)
    job = job.model_copy(update={"resumed": resumed})
    journal = Journal(job.run_file)
    RoundRunner(job, journal, 0, make).run()
    journal.finish()
    return journal.runs[0]


def experiment_of(name: str, definition: dict[str, Any]) -> ExperimentRef:
    """An experiment outside the study."""
    definition = {**definition, "scale": "adhoc"}
    return ExperimentRef(name=name, scale="adhoc", definition_sha256=sha256_of(definition), definition=definition)


def new_campaign() -> CampaignRef:
    """A campaign that begins now."""
    return CampaignRef(uid=str(uuid.uuid4()), created_at_utc=utc_now())


def _jobs(
    name: str,
    points: list[TrialSpec],
    definition: dict[str, Any],
    rounds: int,
    folder: Path,
    own_data: Path | None = None,
) -> Iterator[RoundJob]:
    check_rounds(rounds)
    experiment = experiment_of(name, definition)
    campaign = new_campaign()
    for number in range(1, rounds + 1):
        yield RoundJob(
            campaign=campaign,
            experiment=experiment,
            number=number,
            points=points,
            trial_timeout_s=TIMEOUT_S,
            run_file=_run_file(folder, number),
            own_data=own_data,
        )
