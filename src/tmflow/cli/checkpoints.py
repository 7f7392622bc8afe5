"""Checkpoints of a cluster's training, for the commands that train one: their options, and what they tell the user.

A file that exists is continued without a further option, so that whoever starts the command again after a fault, such
as Slurm, needs no other command. The file of another training is refused, so none is overwritten by mistake.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tmflow.base.errors import BadInput
from tmflow.cli.options import require_writable

if TYPE_CHECKING:
    from tmflow.runfile.record import Run
    from tmflow.spec.trial import TrialSpec
    from tmflow.training.cluster.checkpoint import CheckpointPlan

CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        help="cluster: write the state of the training to this file, and if it exists, continue from it; not with "
        "--save and --save-file."
    ),
]
CheckpointEveryOption = Annotated[
    int | None, typer.Option(help="cluster: steps of all workers together between two checkpoints.")
]


def plan_of(file: Path | None, every: int | None, *, driver: str, rounds: int, saves: bool) -> CheckpointPlan | None:
    """The plan that the options give; None without checkpoints. Raises BadInput if they do not fit the others."""
    from tmflow.training.cluster.checkpoint import CheckpointPlan

    if file is None and every is None:
        return None
    if file is None or every is None:
        raise BadInput("--checkpoint and --checkpoint-every belong together: give both, or none.")
    if driver != "cluster":
        raise BadInput(f"--checkpoint belongs to driver cluster, not to {driver}.")
    if rounds != 1:
        raise BadInput(f"--checkpoint belongs to one training, and --rounds is {rounds}: leave out --rounds.")
    if saves:
        raise BadInput(
            "--checkpoint excludes --save and --save-file: the time of a training that stops for checkpoints, or "
            "continues after a fault, is no measurement."
        )
    if every < 1:
        raise BadInput(f"--checkpoint-every is {every}, but should be at least 1.")
    require_writable(file, "--checkpoint")
    return CheckpointPlan(file=file.absolute(), every=every)


def train_with(plan: CheckpointPlan, spec: TrialSpec) -> Run:
    """Train on a cluster of this machine, from the last checkpoint if there is one.

    Raises BadInput if the file does not fit, or the strategy needs a process of its own environment.
    """
    from tmflow.base.locks import machine_to_itself
    from tmflow.study.adhoc import train_here
    from tmflow.training.cluster.driver import Variant
    from tmflow.training.cluster.member import require_here

    require_here(spec)
    with machine_to_itself(), tempfile.TemporaryDirectory(prefix="tmflow-") as folder:
        resumed = announce(plan, spec)
        run = train_here(
            spec, {}, Path(folder), lambda point, strategy, workers, _: Variant(point, strategy, workers, plan), resumed
        )
    advise(plan, run)
    return run


def announce(plan: CheckpointPlan, spec: TrialSpec) -> bool:
    """Tell the user from where the training continues; return whether it does. Raises BadInput as `resume`."""
    from tmflow.training.cluster.checkpoint import resume

    checkpoint = resume(plan.file, spec)
    if checkpoint:
        print(f"tmflow: continuing from {plan.file}: {checkpoint.progress} are done.", file=sys.stderr, flush=True)
    return checkpoint is not None


def advise(plan: CheckpointPlan, run: Run) -> None:
    """If the training failed, tell the user from where the same command continues."""
    from tmflow.training.cluster.checkpoint import read

    if run.status == "ok":
        return
    if plan.file.exists():
        done = read(plan.file).progress
        sentence = f"the checkpoint {plan.file} has {done}: the same command continues from there."
    else:
        sentence = f"there is no checkpoint {plan.file} yet: the same command starts from the beginning."
    print(f"tmflow: {sentence}", file=sys.stderr, flush=True)
