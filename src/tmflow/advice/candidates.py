"""The ways of training that an advice compares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from tmflow.base.errors import BadInput, Unsupported
from tmflow.native import automatic, loader
from tmflow.native.automatic import Consistency

# Strategies in the order in which they are tried if time is short; `auto` is that of the consistency. The software
# transactions of words (stm, itm) are left out: an update of a whole variable takes them many times as long.
STRATEGIES = (
    automatic.AUTO, "striped", "lock", "spin", "combining", "spin_then_mutex", "block_stm", "htm_if_fits", "htm", "tle",
    "atomic",
)  # fmt: skip
NO_LOCK = "nolock"

Step = Literal["whole", "without update", "with copies"]


@dataclass(frozen=True)
class Way:
    """A way to train: Keras's own optimizer in one thread, or an optimizer of tmflow in some workers.

    strategy: None for Keras's own. per_call: steps of a worker in one call of TensorFlow. step: "whole" for training;
    "without update" ends when the gradients are computed, "with copies" computes them from copies of the variables, in
    place of their memory: they show where the time of a step goes.
    """

    strategy: str | None
    workers: int = 1
    per_call: int = 1
    step: Step = "whole"

    def __str__(self) -> str:
        if self.strategy is None:
            return "Keras's optimizer, one thread" + (f", {self.per_call} steps per call" if self.per_call > 1 else "")
        part = "" if self.step == "whole" else f", {self.step}"
        return f"{self.strategy}, {self.workers} worker{'s' if self.workers > 1 else ''}{part}"


def strategies_for(consistency: Consistency, optimiser: str) -> Iterator[str]:
    """The strategies that guarantee the consistency, run here, and update the arrays of the optimiser.

    optimiser: "sgd", "momentum", "adagrad" or "adam". Raises BadInput for an unknown consistency.
    """
    automatic.resolve(automatic.AUTO, consistency)
    for strategy in STRATEGIES:
        try:
            resolved = automatic.resolve(strategy, consistency)
        except (BadInput, Unsupported):  # it guarantees less, or there is no such hardware
            continue
        try:
            loader.core().check_slots(optimiser, resolved.name, list(resolved.native_arguments))
        except ValueError:
            continue
        yield strategy


def other_workers(workers: int, processors: int) -> list[int]:
    """Numbers of workers that show whether more help: one, half as many, and twice as many if there are processors."""
    numbers = {1, workers // 2, min(2 * workers, processors)} - {0, workers}
    return sorted(numbers)


def check_consistency(consistency: str) -> Consistency:
    """The consistency. Raises BadInput for an unknown one, and for none, which needs no advice."""
    valid: list[Consistency] = [name for name in get_args(Consistency) if name != "none"]
    for name in valid:
        if name == consistency:
            return name
    raise BadInput(f"consistency is '{consistency}', but should be one of {', '.join(valid)}.")
