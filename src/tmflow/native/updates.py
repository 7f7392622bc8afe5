"""Updates of resource variables under a strategy from any thread, eagerly or in a `tf.function`."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tmflow.native import loader
from tmflow.native.ops import Stats, Tracker
from tmflow.native.registry import ResolvedStrategy

if TYPE_CHECKING:
    from tmflow.spec.factors import Measures

_TRACKED_BY = "_tmflow_trackers"  # the attribute of a variable with weak references to the handles of its trackers
_ANY_WORKER = -1  # each update borrows the counters of a worker


class Updates:
    """The updates of some variables under one strategy, and their counters.

    A variable is known by its place in `names`. All its updates should be made by one object: another strategy, or the
    same with other parameters, is refused when it is run.
    """

    def __init__(
        self,
        names: Sequence[str],
        strategy: ResolvedStrategy,
        workers: int,
        measures: Measures = "usual",
        *,
        has_slots: bool = False,
    ) -> None:
        """Count for the named variables; see `Tracker` for the other arguments. May be called in a `tf.function`."""
        import tensorflow as tf

        self.strategy = strategy
        with tf.init_scope():
            self._tracker = Tracker(workers, names, measures, has_slots=has_slots)
        for index in range(len(names)):
            self._tracker.count(index, strategy)

    def descend(self, variable: Any, index: int, gradient: Any, rate: Any) -> None:
        """variable -= rate * gradient. `gradient`: a tensor, or IndexedSlices; `rate`: a scalar; both of its type."""
        self._apply("gradient_descent", variable, index, gradient, rate)

    def step(
        self,
        variable: Any,
        index: int,
        gradient: Any,
        rate: Any,
        *,
        optimiser: str,
        hyperparameters: Sequence[str],
        slots: Sequence[Any],
    ) -> None:
        """One step of an optimiser with slots, `tf.Variable`s of the variable's shape and type that belong to it alone.

        hyperparameters: as "name=number"; see TmflowResourceApplyOptimiser.
        """
        handles = [slot.handle for slot in slots]
        attributes = {"optimiser": optimiser, "hyperparameters": list(hyperparameters)}
        self._apply("optimiser", variable, index, gradient, rate, handles, **attributes)

    def read(self, variable: Any, index: int, *, consistent: bool = True) -> Any:
        """A copy of the variable: through the strategy, with the consistency of its reads, or of its memory.

        Full measures count it, and whether it was torn.
        """
        return loader.ops().tmflow_resource_read(
            variable.handle,
            self._tracker.handle,
            _ANY_WORKER,
            consistent=consistent,
            T=variable.dtype,
            **self._variant(index),
        )

    def stats(self) -> Stats:
        """The counts since the last reset. Call it while no thread updates."""
        return self._tracker.stats()

    def reset(self) -> None:
        """Discard the counts. Call it while no thread updates."""
        self._tracker.reset()

    def take_over(self, variables: Sequence[Any]) -> None:
        """Let these updates choose the strategy of `tf.Variable`s that others have updated before.

        A function that was traced for the former updates keeps their tracker, and so their strategy, alive: it gives
        them up here. No thread may update the variables meanwhile.
        """
        for variable in variables:
            references = getattr(variable, _TRACKED_BY, [])
            former = [handle for reference in references if (handle := reference()) is not None]
            for handle in former:
                loader.ops().tmflow_release_tracker(handle)
            setattr(variable, _TRACKED_BY, [weakref.ref(handle) for handle in [*former, self._tracker.handle]])

    def release(self) -> None:
        """Give up the strategy, so that others may choose one. Call it while no thread updates."""
        loader.ops().tmflow_release_tracker(self._tracker.handle)

    def _apply(
        self, rule: str, variable: Any, index: int, gradient: Any, rate: Any, *slots: Any, **attributes: Any
    ) -> None:
        import tensorflow as tf

        by_rows = isinstance(gradient, tf.IndexedSlices)
        operands = [tf.cast(gradient.indices, tf.int64), gradient.values] if by_rows else [gradient]
        apply = getattr(loader.ops(), f"tmflow_resource_apply_{'rows_' if by_rows else ''}{rule}")
        inputs = [variable.handle, rate, *operands, self._tracker.handle, _ANY_WORKER, *slots]
        apply(*inputs, **self._variant(index), **attributes)

    def _variant(self, index: int) -> dict[str, Any]:
        parameters = list(self.strategy.native_arguments)
        return {"strategy": self.strategy.name, "parameters": parameters, "variable": index}
