"""The native operations in a TensorFlow graph: the tracker of steps, and updates under a strategy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tmflow.base.errors import BadInput
from tmflow.native import availability, loader, stock
from tmflow.native.registry import ResolvedStrategy
from tmflow.native.slots import Step
from tmflow.spec import abort_codes
from tmflow.spec.strategies import CONTENTION

if TYPE_CHECKING:
    from tmflow.spec.factors import Measures

Rows = list[dict[str, Any]]


class Stats(NamedTuple):
    """Rows of the fields with the same names in `runfile.Run`."""

    counters: Rows
    aborts: Rows
    staleness: Rows
    retries: Rows
    failed_publications: Rows
    taken_blocks: Rows
    reads: Rows
    lost: Rows


class Tracker:
    """Counts steps, their staleness and the updates of each worker on each variable, for the graph's session.

    Create it while the graph is the default graph. A step reads the version first (`begin_step`), then the variables,
    and ends after all its updates (`end_step`); the caller ensures this order with control dependencies. For the stock
    strategies only the steps are counted.
    """

    def __init__(
        self,
        workers: int,
        variables: Sequence[str],
        measures: Measures = "usual",
        *,
        has_slots: bool = False,
        shared_name: str = "",
    ) -> None:
        """Count for workers 0 to `workers` - 1 and the named variables, which are numbered in this order.

        measures: full also counts lost updates and torn reads and times locks, which slows the steps down.

        has_slots: full measures also count the elements that are inconsistent with the slots of an optimiser.

        shared_name: all graphs on the default device that name it share one tracker, which lives as long as the
        graph's default container.
        """
        import tensorflow as tf

        self.variables = list(variables)
        self.measures: Measures = measures
        self.fused: list[str] = []  # the variables whose updates are fused with their gradients
        self._ops = loader.ops()
        self._strategies: dict[int, ResolvedStrategy] = {}  # of the variables whose updates are counted
        # Outside the caller's dependencies: it exists before the first step, and can be read after the last.
        with tf.name_scope("tmflow_tracker"), tf.control_dependencies(None):
            counted = {
                "workers": workers, "variables": len(self.variables), "measures": measures, "has_slots": has_slots
            }  # fmt: skip
            if tf.executing_eagerly():
                self.handle = self._ops.tmflow_anonymous_tracker(**counted)
            else:
                container = tf.compat.v1.get_default_graph()._container
                self.handle = self._ops.tmflow_tracker(**counted, container=container, shared_name=shared_name)
            self._stats = self._ops.tmflow_stats(self.handle)
            self._reset = self._ops.tmflow_reset_tracker(self.handle)

    def begin_step(self) -> Any:
        """The version, an int64 scalar: the number of completed steps. Evaluated once in each run."""
        return self._ops.tmflow_begin_step(self.handle)

    def end_step(self, worker: Any, version: Any) -> Any:
        """Complete the step that began at `version`; the int64 scalar is its staleness.

        worker: int32 scalar. Fails if it is run with a worker out of range or a version that never existed.
        """
        return self._ops.tmflow_end_step(self.handle, worker, version)

    def count(self, variable: int, strategy: ResolvedStrategy) -> None:
        """Register the variable with this number: its updates under `strategy` are counted."""
        self._strategies[variable] = strategy

    def stats(self, session: Any = None) -> Stats:
        """The counts since the last reset. Call it while no thread updates.

        session: of the tracker's graph; None for a tracker that was created eagerly.
        """
        counts = (
            [array.numpy() for array in self._ops.tmflow_stats(self.handle)]
            if session is None
            else session.run(self._stats)
        )
        updates, transactions, ended, staleness, met, locks, reads, lost = counts
        counters = []
        for worker, (index, strategy) in itertools.product(range(len(updates)), sorted(self._strategies.items())):
            row = {"worker": worker, "variable": self.variables[index], "updates": int(updates[worker, index])}
            if strategy.mechanism is not None:
                attempts, commits, fallbacks = transactions[worker, index].tolist()
                row |= {"attempts": attempts if attempts >= 0 else None, "commits": commits, "fallbacks": fallbacks}
            if strategy.times_locks and self.measures == "full":
                waited_ns, held_ns = locks[worker, index].tolist()
                row |= {"lock_waited_s": waited_ns / 1e9, "lock_held_s": held_ns / 1e9}
            counters.append(row)
        contention = {
            kind: self._rows(("worker", "variable", kind, of), met[met[:, 2] == number][:, [0, 1, 3, 4]])
            for number, (kind, of) in enumerate(CONTENTION.items())
        }
        return Stats(
            counters=counters,
            aborts=[self._abort(*row) for row in ended.tolist()],
            staleness=self._rows(("worker", "staleness", "steps"), staleness),
            reads=self._rows(("worker", "variable", "reads", "torn"), reads),
            lost=[
                row if row["inconsistent"] >= 0 else row | {"elements": None, "inconsistent": None}
                for row in self._rows(("variable", "expected", "lost", "elements", "inconsistent"), lost)
            ],
            **contention,
        )

    def _rows(self, keys: Sequence[str], values: Any) -> Rows:
        rows = [dict(zip(keys, row, strict=True)) for row in values.tolist()]
        return [row | {"variable": self.variables[row["variable"]]} if "variable" in row else row for row in rows]

    def _abort(self, worker: int, variable: int, status: int, n: int) -> dict[str, Any]:
        mechanism = self._strategies[variable].mechanism
        assert mechanism is not None, "only transactions abort"
        described = abort_codes.classify(mechanism, status)
        return {"worker": worker, "variable": self.variables[variable], "mechanism": mechanism, **described, "n": n}

    def reset(self, session: Any = None) -> None:
        """Reset all counts to zero; `session` as for `stats`."""
        if session is None:
            self._ops.tmflow_reset_tracker(self.handle)
        else:
            session.run(self._reset)


class DenseFactors(NamedTuple):
    """The factors of a gradient: transposed `input` [examples, rows] times `output_gradient` [examples, columns]."""

    input: Any
    output_gradient: Any
    after: tuple[Any, ...]  # the operations that the product would have waited for


def dense_factors(gradient: Any) -> DenseFactors | None:
    """The factors of a gradient from `tf.gradients` if it is that of a dense layer; None for any other.

    A dense layer is one matrix product of its inputs and a variable, such as `tf.matmul(inputs, weights)` or Keras's
    Dense on a matrix, with transposed weights or not. The gradient of a variable that is used twice, or also by a
    regulariser, is a sum; casts, convolutions and transposed inputs also give other gradients. These are not the
    product of two matrices of examples, so they cannot be fused.
    """
    import tensorflow as tf

    if not isinstance(gradient, tf.Tensor):  # None, or the rows of an embedding
        return None
    after: list[Any] = []
    while gradient.op.type == "Identity":
        after += gradient.op.control_inputs
        gradient = gradient.op.inputs[0]
    product = gradient.op
    is_factored = product.type == "MatMul" and product.get_attr("transpose_a") and not product.get_attr("transpose_b")
    if not is_factored or gradient.dtype not in (tf.float32, tf.float64):
        return None
    return DenseFactors(product.inputs[0], product.inputs[1], (*after, *product.control_inputs))


def apply_gradient_descent(
    variable: Any,
    learning_rate: float,
    gradient: Any,
    *,
    strategy: ResolvedStrategy,
    tracker: Tracker,
    worker: Any,
    index: int,
    step: Step | None = None,
) -> Any:
    """The operation `variable -= learning_rate * gradient`, in place, under `strategy`.

    With `step` it is the step of an optimiser with slots instead, on the variable and its slots, at the step's rate.

    variable: a float32 or float64 `tf.compat.v1.Variable`, reference or resource; gradient: of the same shape and type,
    or `tf.IndexedSlices`, as an embedding has it, with which only its rows are read and written; worker: int32 scalar;
    index: the variable's number in `tracker`. All operations that update a variable must have the same strategy and
    parameters, no matter which tracker counts them, as long as those trackers live; an operation that differs fails
    when it is run.

    A value that TensorFlow has read from a resource variable (`read_value`, an assignment to another variable) does not
    change: an update copies the variable first if the value is still in use. A `view`, and a read of a reference
    variable, share the variable's memory and see later updates; so a gradient that is one of those fails when it is
    run.

    Where a strategy keeps the variable elsewhere (`leashed`, `local_steps`), a read of the variable itself lacks
    updates: compute the gradient from `read` with `consistent`, run `settle` before anything else reads the variable,
    and `settle` with `restart` after it was assigned.

    With kernel "fused", a gradient that `dense_factors` can take apart is not computed: the update waits for its
    factors, and for nothing else. Make it wait for every operation that must read the variable first
    (`apply_all` does).

    Raises BadInput for a learning rate that is not finite or not that of the step, for a gradient of a whole resource
    variable under tf_nolock, for rows of one under tf_lock without a step, for rows under a strategy that cannot update
    rows or under Adam, and for a fused update in emulated transactions; Unsupported for a strategy
    that cannot run here; ValueError for a parameter that the strategy does not have or a value that it does not allow,
    and for one that cannot change slots.
    """
    import tensorflow as tf

    availability.require(strategy)
    target = variable.op.outputs[0]
    is_resource = target.dtype == tf.resource
    dtype = variable.dtype.base_dtype
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(dtype.as_numpy_dtype(learning_rate)))
    if not finite:
        raise BadInput(f"learning_rate is {learning_rate}; it must be a finite number in {dtype.name}.")
    alpha = tf.constant(learning_rate, dtype)
    by_rows = isinstance(gradient, tf.IndexedSlices)
    if step is not None and step.learning_rate != learning_rate:
        raise BadInput(f"learning_rate is {learning_rate}, but the step was begun with {step.learning_rate}.")
    if by_rows and step is not None and step.optimiser == "adam":
        raise BadInput(
            f"optimiser adam cannot update rows of {variable.op.name}: TensorFlow's Adam decays the moments of all "
            "other rows too."
        )
    if strategy.is_stock:
        return stock.update(strategy.name, target, alpha, gradient, step)
    optimiser = "sgd" if step is None else step.optimiser
    loader.core().check_slots(optimiser, strategy.name, list(strategy.native_arguments))
    if step is not None:
        alpha = step.rate
    factors = dense_factors(gradient) if strategy.is_fused else None
    after: tuple[Any, ...] = ()
    if by_rows:
        apply, operands = "apply_rows", [tf.cast(gradient.indices, tf.int64), gradient.values]
    elif factors is None:
        apply, operands = "apply", [gradient]
    elif strategy.is_emulated:
        raise BadInput(f"{availability.FUSED_NOT_EMULATED}.")
    else:
        apply, operands, after = "apply_dense", [*factors[:2]], factors.after
        tracker.fused.append(tracker.variables[index])
    tracker.count(index, strategy)
    inputs = [alpha, *operands, tracker.handle, worker]
    with tf.control_dependencies(after):
        if step is None:
            updated = _native_op(f"{apply}_gradient_descent", variable, inputs, strategy, index)
        else:
            slots = [slot.op.outputs[0] for slot in step.slots]
            apply, inputs = f"{apply}_optimiser", [*inputs, slots]
            updated = _native_op(apply, variable, inputs, strategy, index, optimiser=step.optimiser)
    return updated if is_resource else updated.op


def view(variable: Any) -> Any:
    """The variable's memory as a tensor, not copied, which changes with every later update in place.

    The 2017 study read its variables in this way. TensorFlow's own read of a resource variable is a value instead, for
    which an update copies the variable while the value is in use.
    """
    import tensorflow as tf

    if hasattr(variable, "handle"):
        return loader.ops().tmflow_resource_view(variable.op.outputs[0], T=variable.dtype.base_dtype)
    return tf.identity(variable._ref())


def note_read(variable: Any, *, strategy: ResolvedStrategy, tracker: Tracker, index: int) -> Any:
    """The operation that announces a read of the variable that bypasses its native strategy.

    Only emulated transactions need it; real ones detect a reader. The arguments are those of `apply_gradient_descent`.
    """
    return _native_op("note_read", variable, [tracker.handle], strategy, index, **_type_of(variable))


def read(
    variable: Any, *, strategy: ResolvedStrategy, tracker: Tracker, worker: Any, index: int, consistent: bool
) -> Any:
    """A copy of the variable: through its native strategy if `consistent`, with what that guarantees; else a plain one.

    A tracker with full measures counts it, and whether it was torn. Fails when it is run under a strategy that has no
    such read. The arguments are those of `apply_gradient_descent`.
    """
    attributes = _type_of(variable) | {"consistent": consistent}
    return _native_op("read", variable, [tracker.handle, worker], strategy, index, **attributes)


def settle(variable: Any, *, strategy: ResolvedStrategy, tracker: Tracker, index: int, restart: bool) -> Any:
    """The operation that brings the variable's memory up to date, for reads that bypass the strategy.

    With `restart` the strategy takes over the value that was assigned to the variable. Only strategies that keep the
    variable elsewhere have anything to do. Run it while no thread updates; the arguments are those of
    `apply_gradient_descent`.
    """
    attributes = _type_of(variable) | {"restart": restart}
    return _native_op("settle", variable, [tracker.handle], strategy, index, **attributes)


def _type_of(variable: Any) -> dict[str, Any]:
    """The attribute for the type of a resource variable's elements, which no other input determines."""
    return {"T": variable.dtype.base_dtype} if hasattr(variable, "handle") else {}


def _native_op(
    operation: str,
    variable: Any,
    inputs: Sequence[Any],
    strategy: ResolvedStrategy,
    index: int,
    **attributes: Any,
) -> Any:
    """The native operation of this name, for the variable's kind."""
    is_resource = hasattr(variable, "handle")
    if not is_resource:
        attributes["container"] = variable.op.get_attr("container")
    make = getattr(loader.ops(), f"tmflow_{'resource_' if is_resource else ''}{operation}")
    arguments = list(strategy.native_arguments)
    target = variable.op.outputs[0]
    return make(target, *inputs, strategy=strategy.name, parameters=arguments, variable=index, **attributes)
