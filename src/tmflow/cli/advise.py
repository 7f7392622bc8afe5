"""`tmflow advise`: the fastest way to synchronise, measured with one's own model or for its sizes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer

from tmflow.base.errors import BadInput
from tmflow.cli.options import JsonOption, database, print_result


def advise(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.py:FUNCTION",
            help="A function that returns (model, dataset) or (model, dataset, validation): a compiled Keras model, "
            "a tf.data.Dataset of batches, and what to measure the accuracy on.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="The threads that shall train the model.")] = 2,
    consistency: Annotated[
        str, typer.Option(help="What concurrent updates of a variable must guarantee: element, block or tensor.")
    ] = "block",
    seconds: Annotated[
        float, typer.Option(help="About how long it may take, 10 to 3600; it makes at least three rounds.")
    ] = 60,
    variables: Annotated[
        str | None,
        typer.Option(
            help="Shapes such as 3136x1024,1024 in place of a model, or 100000x16:64 for an embedding of which a step "
            "updates 64 rows; needs --step-us."
        ),
    ] = None,
    step_us: Annotated[
        float | None, typer.Option(help="Microseconds that a worker computes between two updates.")
    ] = None,
    save: Annotated[
        bool,
        typer.Option("--save", help="Also keep the runs as run files, and store them in the database, for the portal."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train your model under each strategy on this machine, in turns, and say which is the fastest.

    The ratios are paired by round, with 95 % intervals. "No difference" is an answer.
    """
    if (target is None) == (variables is None):
        raise BadInput("advise needs a model, such as training.py:build, or --variables with --step-us, and not both.")
    if (variables is None) != (step_us is None):
        raise BadInput("--variables and --step-us go together.")
    from tmflow.advice import advice, user_code
    from tmflow.store import engine

    def progress(what: str) -> None:
        if not as_json:
            print(what, file=sys.stderr)

    if variables is not None and step_us is not None:
        given = advice.advise_for_sizes(
            variables, step_us, workers, consistency=consistency, seconds=seconds, save=save, progress=progress
        )
    else:
        advice.check(workers, consistency, seconds)  # before the user's code
        built = user_code.build(str(target))
        given = advice.advise(
            built.model, built.dataset, workers,
            consistency=consistency, validation=built.validation, seconds=seconds, save=save, progress=progress,
        )  # fmt: skip
    print_result(as_json, given.as_json(), [str(replace(given, not_saved=None))])  # which follows as the error
    if given.not_saved is not None:
        raise BadInput(given.not_saved)
    if given.saved is not None:
        where = f"{engine.shown(database())}, their files in {given.saved}"
        print(f"tmflow: the runs are stored in {where}.", file=sys.stderr)
