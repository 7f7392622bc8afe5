"""The native operations in a TensorFlow graph: the tracker of steps, and updates under a strategy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tmflow.base.errors import BadInput
from tmflow.native import availability, fused, loader
from tmflow.native.registry import mechanism_of, native_parameters
from tmflow.spec import abort_codes, contention
from tmflow.spec.strategies import LOCKS_UNTOLD, Value

if TYPE_CHECKING:
    from tmflow.spec.factors import Measures

STOCK_LOCKING = {"tf_lock": True, "tf_nolock": False}  # the first on either kind of variable


Rows = list[dict[str, Any]]


class Stats(NamedTuple):
    """Rows of `runfile.Counters`, `Abort`, `Staleness`, `Reads` and `Lost`; of contention, by its kind."""

    counters: Rows
    aborts: Rows
    staleness: Rows
    contention: dict[contention.Kind, Rows]
    reads: Rows
    lost: Rows


class Tracker:
    """Counts steps, their staleness and the updates of each worker on each variable, for the graph's session.

    Must be made while the graph is the default one. A step reads the version first (`begin_step`), then the
    variables, and ends after all its updates (`end_step`); the two orders are the caller's to make, with control
    dependencies. Updates of the stock strategies are not counted, only their steps.
    """

    def __init__(self, workers: int, variables: Sequence[str], measures: Measures = "usual") -> None:
        """For workers 0 to `workers` - 1 and the named variables, which are numbered in this order.

        measures: full counts lost updates and torn reads and times locks, too, which takes time itself.
        """
        import tensorflow as tf

        self.variables = list(variables)
        self._measures = measures
        self.fused: list[str] = []  # those whose updates are fused with their gradients
        self._ops = loader.ops()
        self._locks_told: set[int] = set()
        self._mechanisms: dict[int, str | None] = {}  # of the variables whose updates are counted
        # Outside the dependencies that the caller is in: it is there before the first step and readable after the last.
        with tf.name_scope("tmflow_tracker"), tf.control_dependencies(None):
            make = self._ops.tmflow_anonymous_tracker if tf.executing_eagerly() else self._ops.tmflow_tracker
            self.handle = make(workers=workers, variables=len(self.variables), measures=measures)
            self._stats = self._ops.tmflow_stats(self.handle)
            self._reset = self._ops.tmflow_reset_tracker(self.handle)

    def begin_step(self) -> Any:
        """The version, an int64 scalar: how many steps have completed. Evaluated once in each run."""
        return self._ops.tmflow_begin_step(self.handle)

    def end_step(self, worker: Any, version: Any) -> Any:
        """Completes the step that began at `version`; the int64 scalar is its staleness.

        worker: int32 scalar. Fails when run with a worker out of range or a version that never was.
        """
        return self._ops.tmflow_end_step(self.handle, worker, version)

    def count(self, variable: int, mechanism: str | None = None, *, tells_locks: bool = True) -> None:
        """Declare that updates of the variable of this number are counted.

        mechanism: of the transactions that its strategy tries (see `parameters.mechanism_of`); None if it tries none.
        tells_locks: whether the strategy tells how long it holds locks, with full measures.
        """
        self._mechanisms[variable] = mechanism
        if tells_locks and self._measures == "full":
            self._locks_told.add(variable)

    def stats(self, session: Any) -> Stats:
        """What was counted since the last reset. Call it while nobody updates."""
        updates, transactions, ended, staleness, met, locks, reads, lost = session.run(self._stats)
        counters = []
        for worker, index in itertools.product(range(len(updates)), sorted(self._mechanisms)):
            row = {"worker": worker, "variable": self.variables[index], "updates": int(updates[worker, index])}
            if self._mechanisms[index] is not None:
                attempts, commits, fallbacks = transactions[worker, index].tolist()
                row |= {"attempts": attempts if attempts >= 0 else None, "commits": commits, "fallbacks": fallbacks}
            if index in self._locks_told:
                waited_ns, held_ns = locks[worker, index].tolist()
                row |= {"lock_waited_s": waited_ns / 1e9, "lock_held_s": held_ns / 1e9}
            counters.append(row)
        return Stats(
            counters,
            [self._abort(*row) for row in ended.tolist()],
            self._rows(("worker", "staleness", "steps"), staleness),
            {
                kind: self._rows(("worker", "variable", kind, of), met[met[:, 2] == number][:, [0, 1, 3, 4]])
                for number, (kind, of) in enumerate(contention.KINDS.items())
            },
            self._rows(("worker", "variable", "reads", "torn"), reads),
            self._rows(("variable", "expected", "lost"), lost),
        )

    def _rows(self, keys: Sequence[str], values: Any) -> Rows:
        rows = [dict(zip(keys, row, strict=True)) for row in values.tolist()]
        return [row | {"variable": self.variables[row["variable"]]} if "variable" in row else row for row in rows]

    def _abort(self, worker: int, variable: int, status: int, n: int) -> dict[str, Any]:
        mechanism = self._mechanisms[variable]
        assert mechanism is not None, "only transactions abort"
        described = abort_codes.described(mechanism, status)
        return {"worker": worker, "variable": self.variables[variable], "mechanism": mechanism, **described, "n": n}

    def reset(self, session: Any) -> None:
        """Forget all counts."""
        session.run(self._reset)


def apply_gradient_descent(
    variable: Any,
    learning_rate: float,
    gradient: Any,
    *,
    strategy: str,
    tracker: Tracker,
    worker: Any,
    index: int,
    parameters: Mapping[str, Value] = MappingProxyType({}),
) -> Any:
    """The operation `variable -= learning_rate * gradient`, in place, under `strategy`.

    variable: a float32 or float64 `tf.compat.v1.Variable`, reference or resource; gradient: of the same shape and
    type; worker: int32 scalar; index: the variable's number in `tracker`; parameters: the strategy's, those that are
    not given have their fallbacks. All who update a variable must agree on strategy and parameters, whatever tracker
    counts them, as long as those trackers live; another one fails when it is run.

    What TensorFlow reads of a resource variable (`read_value`, an assignment to another variable)
    keeps its value: an update copies the variable first if somebody still holds what was read. A `view` and a
    reading of a reference variable share the variable's memory and see later updates; so a gradient that is one of
    those fails when it is run. Raises BadInput for an unknown strategy or profile, for a learning rate that is not
    finite, for tf_nolock on a resource variable, for a stock strategy with parameters, and for a fused update in
    emulated transactions; Unsupported for a strategy that cannot run here; ValueError for a parameter that the
    strategy does not have or a value that it does not allow.

    Where a strategy keeps the variable elsewhere (`leashed`), who reads the variable itself sees no update: compute the
    gradient from `read` with `consistent`, run `settle` before anybody else reads the variable, and `settle` with
    `restart` after it was assigned.

    With kernel "fused", a gradient that `fused.dense_factors` can take apart is not computed: the update waits for its
    factors, and for nothing else. Make it wait for whatever reads the variable before it is to change
    (`minimise.apply_all` does).
    """
    import tensorflow as tf

    availability.require(strategy, parameters)
    target = variable.op.outputs[0]
    is_resource = target.dtype == tf.resource
    dtype = variable.dtype.base_dtype
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(dtype.as_numpy_dtype(learning_rate)))
    if not finite:
        raise BadInput(f"learning_rate is {learning_rate}; it must be a finite number in {dtype.name}.")
    alpha = tf.constant(learning_rate, dtype)
    if strategy in STOCK_LOCKING:
        if parameters:
            raise BadInput(f"strategy '{strategy}' has no parameter '{next(iter(parameters))}'; it has: none.")
        locking = STOCK_LOCKING[strategy]
        if is_resource and not locking:
            raise BadInput(
                f"strategy '{strategy}' needs reference variables (variables: ref): TensorFlow's own update of a "
                "resource variable always takes the exclusive lock, so it is no unlocked baseline."
            )
        if is_resource:
            return tf.raw_ops.ResourceApplyGradientDescent(var=target, alpha=alpha, delta=gradient, use_locking=True)
        return tf.raw_ops.ApplyGradientDescent(var=target, alpha=alpha, delta=gradient, use_locking=locking).op
    factors = fused.dense_factors(gradient) if fused.is_wanted(parameters) else None
    if factors is not None and parameters.get("provider") == "emulated":
        raise BadInput(f"{fused.NOT_EMULATED}.")
    tracker.count(index, mechanism_of(strategy, parameters), tells_locks=strategy not in LOCKS_UNTOLD)
    attributes = {"strategy": strategy, "parameters": native_parameters(strategy, parameters), "variable": index}
    if not is_resource:
        attributes["container"] = variable.op.get_attr("container")
    library = loader.ops()
    if factors is not None:
        tracker.fused.append(tracker.variables[index])
        operands = (target, alpha, factors.input, factors.output_gradient, tracker.handle, worker)
        with tf.control_dependencies(factors.after):
            if is_resource:
                return library.tmflow_resource_apply_dense_gradient_descent(*operands, **attributes)
            return library.tmflow_apply_dense_gradient_descent(*operands, **attributes).op
    arguments = (target, alpha, gradient, tracker.handle, worker)
    if is_resource:
        return library.tmflow_resource_apply_gradient_descent(*arguments, **attributes)
    return library.tmflow_apply_gradient_descent(*arguments, **attributes).op


def view(variable: Any) -> Any:
    """The variable's memory as a tensor, not copied, which changes with every later update in place.

    As the 2017 study read its variables. TensorFlow's own reading of a resource variable is a value instead, for which
    an update copies the variable while the value is in use.
    """
    import tensorflow as tf

    if hasattr(variable, "handle"):
        return loader.ops().tmflow_resource_view(variable.op.outputs[0], T=variable.dtype.base_dtype)
    return tf.identity(variable._ref())


def note_read(
    variable: Any,
    *,
    strategy: str,
    tracker: Tracker,
    index: int,
    parameters: Mapping[str, Value] = MappingProxyType({}),
) -> Any:
    """The operation that tells a native strategy that the variable is about to be read, by somebody who takes no part.

    Only emulated transactions learn anything from it; to all others a reader shows itself. The arguments are those of
    `apply_gradient_descent`.
    """
    return _of_variable("note_read", variable, [tracker.handle], strategy, parameters, variable_number=index)


def read(
    variable: Any,
    *,
    strategy: str,
    tracker: Tracker,
    worker: Any,
    index: int,
    consistent: bool,
    parameters: Mapping[str, Value] = MappingProxyType({}),
) -> Any:
    """A copy of the variable: by way of a native strategy if `consistent`, with what that promises; else a plain one.

    A tracker with full measures counts it, and whether it was torn. Fails when it is run under a strategy that has no
    such read. The arguments are those of `apply_gradient_descent`.
    """
    inputs = [tracker.handle, worker]
    return _of_variable("read", variable, inputs, strategy, parameters, variable_number=index, consistent=consistent)


def settle(
    variable: Any,
    *,
    strategy: str,
    tracker: Tracker,
    index: int,
    restart: bool,
    parameters: Mapping[str, Value] = MappingProxyType({}),
) -> Any:
    """The operation that brings the variable's memory up to date, for whoever reads it without the strategy.

    With `restart` it is the strategy that is told: the variable was assigned and starts anew from there. Only those
    that keep the variable elsewhere have anything to do. To be run while nobody updates; the arguments are those of
    `apply_gradient_descent`.
    """
    return _of_variable(
        "settle", variable, [tracker.handle], strategy, parameters, variable_number=index, restart=restart
    )


def _of_variable(
    operation: str,
    variable: Any,
    inputs: Sequence[Any],
    strategy: str,
    parameters: Mapping[str, Value],
    *,
    variable_number: int,
    **attributes: Any,
) -> Any:
    """The native operation of this name, of the kind that the variable is."""
    kind = ""
    if hasattr(variable, "handle"):
        kind = "resource_"
        attributes["T"] = variable.dtype.base_dtype
    else:
        attributes["container"] = variable.op.get_attr("container")
    of_kind = getattr(loader.ops(), f"tmflow_{kind}{operation}")
    given = native_parameters(strategy, parameters)
    return of_kind(
        variable.op.outputs[0], *inputs, strategy=strategy, parameters=given, variable=variable_number, **attributes
    )
