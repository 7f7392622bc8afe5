"""Steps of optimisers with slots as TensorFlow operations: they are those of TensorFlow's own optimisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.native.graphs import KINDS, tf, tf1
from tmflow.base.errors import BadInput
from tmflow.native import loader, ops
from tmflow.native.optimizer import minimise
from tmflow.native.registry import resolve
from tmflow.native.slots import Slots, Step
from tmflow.spec.strategies import STRATEGY_PARAMETERS, WITHOUT_OPTIMISER_STATE

OPTIMISERS = ("momentum", "adagrad", "adam")
OF_ROWS = ("momentum", "adagrad")
OF_TENSORFLOW: dict[str, Callable[[], Any]] = {
    "momentum": lambda: tf1.train.MomentumOptimizer(RATE, 0.9),
    "adagrad": lambda: tf1.train.AdagradOptimizer(RATE),
    "adam": lambda: tf1.train.AdamOptimizer(RATE),
}
RATE = 0.05
STEPS = 60
SHAPE = (6, 8)
# Adam's powers are computed by `pow` here, and by repeated multiplication in TensorFlow, whose hyperparameters are
# rounded to float32 for variables of float64, too.
ROUNDING = 1e-5
IN_PLACE = [name for name in STRATEGY_PARAMETERS if name not in (*WITHOUT_OPTIMISER_STATE, "tle", "htm", "htm_if_fits")]
# Emulated transactions, on every machine; those of htm elide the mutexes of the variable and of its slots.
EMULATED = {"provider": "emulated", "profile": "intel-tsx-study"}
PARAMETERS = {"htm": {**EMULATED, "subscription": "slots"}, "htm_if_fits": EMULATED}


class Training:
    """Variables with slots, and a step of an optimiser on them by gradients that are fed."""

    def __init__(
        self,
        optimiser: str,
        kind: str,
        strategy: str = "lock",
        *,
        dtype: Any = tf.float32,
        shape: Sequence[int] = SHAPE,
        by_rows: bool = False,
        workers: int = 1,
        **parameters: Any,
    ) -> None:
        self.variable = tf1.Variable(tf.ones(shape, dtype), use_resource=KINDS[kind], name="weights")
        self.tracker = ops.Tracker(workers, ["weights"], "usual" if by_rows else "full", has_slots=True)
        self.slots = Slots(optimiser, [self.variable], self.tracker)
        self.worker = tf1.placeholder(tf.int32, [])
        self.values, self.rows = tf1.placeholder(dtype, [None, shape[1]]), tf1.placeholder(tf.int64, [None])
        gradient = tf.IndexedSlices(self.values, self.rows) if by_rows else self.values
        version = self.tracker.begin_step()
        (step,) = self.slots.begin(RATE, version)
        update = ops.apply_gradient_descent(
            self.variable, RATE, gradient, strategy=resolve(strategy, parameters), tracker=self.tracker,
            worker=self.worker, index=0, step=step,
        )  # fmt: skip
        with tf.control_dependencies([update]):
            self.step = self.tracker.end_step(self.worker, version)

    def arrays(self, session: Any) -> list[Any]:
        """The variable, and its slots."""
        return list(session.run([self.variable, *self.slots.of[0]]))


def gradients(dtype: Any) -> list[Any]:
    draw = np.random.default_rng(3)
    return [draw.normal(size=SHAPE).astype(dtype.as_numpy_dtype) for _ in range(STEPS)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["lock", "striped", "tf_lock"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_dense_steps_are_those_of_tensorflow(kind: str, strategy: str, optimiser: str, dtype: Any) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        ours = Training(optimiser, kind, strategy, dtype=dtype)
        theirs = tf1.Variable(tf.ones(SHAPE, dtype), use_resource=KINDS[kind])
        made = OF_TENSORFLOW[optimiser]()
        their_step = made.apply_gradients([(ours.values, theirs)])
        session.run(tf1.global_variables_initializer())
        for gradient in gradients(dtype):
            session.run([ours.step, their_step], {ours.values: gradient, ours.worker: 0})
        expected = session.run([theirs, *(made.get_slot(theirs, name) for name in made.get_slot_names())])
        assert np.abs(expected[0] - 1).max() > 0.1
        for found, value in zip(ours.arrays(session), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["lock", "striped", "tf_lock", "tf_nolock"])
@pytest.mark.parametrize("optimiser", OF_ROWS)
def test_steps_on_rows_are_those_of_tensorflow(kind: str, strategy: str, optimiser: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        ours = Training(optimiser, kind, strategy, by_rows=True)
        theirs = tf1.Variable(tf.ones(SHAPE), use_resource=KINDS[kind])
        made = OF_TENSORFLOW[optimiser]()
        their_step = made.apply_gradients([(tf.IndexedSlices(ours.values, ours.rows), theirs)])
        session.run(tf1.global_variables_initializer())
        draw = np.random.default_rng(4)
        for gradient in gradients(tf.float32):
            rows = draw.choice(SHAPE[0], 3)  # a row may occur several times
            session.run([ours.step, their_step], {ours.values: gradient[:3], ours.rows: rows, ours.worker: 0})
        expected = session.run([theirs, *(made.get_slot(theirs, name) for name in made.get_slot_names())])
        for found, value in zip(ours.arrays(session), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["lock", "spin", "striped", "combining", "block_stm", "adaptive", "htm"])
def test_four_threads_change_the_slots_with_the_variable(kind: str, strategy: str) -> None:
    """Equal gradients commute, so the result is that of one thread to the bit, if no part of an update is lost."""
    shape, steps = (100, 100), 50
    ones = np.ones(shape, np.float32)

    def trained(workers: int) -> tuple[list[Any], Any]:
        with tf.Graph().as_default(), tf1.Session() as session:
            parameters = PARAMETERS.get(strategy, {})
            training = Training("momentum", kind, strategy, shape=shape, workers=workers, **parameters)
            session.run([training.variable.initializer, *training.slots.initialise])
            step = session.make_callable(training.step, [training.worker, training.values])

            def work(worker: int) -> None:
                for _ in range(4 * steps // workers):
                    step(np.int32(worker), ones)

            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(work, range(workers)))
            return training.arrays(session), training.tracker.stats(session).lost

    alone, _ = trained(1)
    together, lost = trained(4)
    assert [(row["elements"], row["inconsistent"], row["lost"]) for row in lost] == [(10_000, 0, 0)]
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("strategy", [*IN_PLACE, *PARAMETERS])
def test_every_strategy_that_may_have_slots_changes_them(strategy: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        trainings = [Training("adam", "resource", name, **PARAMETERS.get(name, {})) for name in ("lock", strategy)]
        session.run(tf1.global_variables_initializer())
        for gradient in gradients(tf.float32)[:5]:
            for training in trainings:
                session.run(training.step, {training.values: gradient, training.worker: 0})
        for expected, found in zip(*(training.arrays(session) for training in trainings), strict=True):
            np.testing.assert_array_equal(found, expected)


def apply(variable: Any, slots: Sequence[Any], optimiser: str = "momentum", strategy: str = "lock") -> Any:
    """The native operation with any slots."""
    rate = tf.constant(RATE, variable.dtype.base_dtype)
    return ops.apply_gradient_descent(
        variable, RATE, tf.ones(variable.shape, variable.dtype.base_dtype), strategy=resolve(strategy),
        tracker=ops.Tracker(1, ["weights"]), worker=0, index=0, step=Step(optimiser, slots, RATE, (), rate),
    )  # fmt: skip


@pytest.mark.parametrize("strategy", ["lock", "striped"])
def test_a_slot_that_was_read_keeps_its_value(strategy: str) -> None:
    """As for the variable: a step copies a slot whose value is in use."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, slot = (tf1.Variable(value, use_resource=True) for value in (tf.ones([3]), tf.zeros([3])))
        held = slot.read_value()
        with tf.control_dependencies([held]):
            step = apply(variable, [slot], strategy=strategy)
        with tf.control_dependencies([step]):
            late = held + 0.0
        session.run(tf1.global_variables_initializer())
        assert (session.run(late) == 0).all()
        assert (session.run(slot) == 1).all()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("strategy", ["lock", "striped"])
def test_steps_and_readers_who_hold_the_variable_and_its_slots_do_not_wait_for_each_other(strategy: str) -> None:
    """A step copies what a reader holds, when no other step writes it: in a circle of these waits, all would stop."""
    with tf.Graph().as_default(), tf1.Session() as session:
        training = Training("adam", "resource", strategy, workers=4)
        values = [variable.read_value() for variable in (training.variable, *training.slots.of[0])]
        session.run(tf1.global_variables_initializer())
        step = session.make_callable(training.step, [training.worker, training.values])
        read = [session.make_callable(value) for value in values]
        ones = np.ones(SHAPE, np.float32)

        def hold(reader: int) -> None:
            held = [read[(reader + i) % 3]() for i in range(3)]
            for turn in range(300):
                held[turn % 3] = read[(turn * (reader + 1)) % 3]()

        def work(worker: int) -> None:
            for _ in range(300):
                step(np.int32(worker), ones)

        with ThreadPoolExecutor(6) as pool:
            for done in [*(pool.submit(work, worker) for worker in range(4)), *(pool.submit(hold, r) for r in (0, 1))]:
                done.result()
        (count,) = training.tracker.stats(session).lost
        assert (count["lost"], count["inconsistent"]) == (0, 0)


def of_shape(shape: Sequence[int], kind: str, dtype: Any = tf.float32) -> Any:
    """A variable whose shape is not known while the graph is built."""
    initial = tf1.placeholder_with_default(np.zeros(shape, dtype.as_numpy_dtype), None)
    return tf1.Variable(initial, validate_shape=False, use_resource=KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_of_another_shape_changes_nothing(kind: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, slot = tf1.Variable(tf.ones([3]), use_resource=KINDS[kind]), of_shape([4], kind)
        step = apply(variable, [slot])
        session.run(tf1.global_variables_initializer())
        message = r"the variable has shape \[3\] and slot 0 of its optimiser has shape \[4\]: they must be the same"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(step)
        assert (session.run(variable) == 1).all()
        assert (session.run(slot) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_slots_that_are_known_to_be_wrong_fail_when_the_graph_is_built(kind: str) -> None:
    with tf.Graph().as_default():
        variable, other = (tf1.Variable(tf.ones(shape), use_resource=KINDS[kind]) for shape in ([3], [4]))
        with pytest.raises(ValueError, match="must be equal"):
            apply(variable, [other])
        with pytest.raises(ValueError, match="optimiser adam has 2 slots, not 1"):
            apply(variable, [variable], "adam")
        with pytest.raises(ValueError, match="optimiser momentum has 1 slot, not 2"):
            apply(variable, [variable, variable])


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_is_a_variable_of_its_own(kind: str) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, slot = (tf1.Variable(tf.ones([3]), use_resource=KINDS[kind]) for _ in range(2))
        wrong = {"slot 0": apply(variable, [variable]), "slot 1": apply(variable, [slot, slot], "adam")}
        session.run(tf1.global_variables_initializer())
        for name, step in wrong.items():
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} is the variable or another slot"):
                session.run(step)
        assert (session.run(variable) == 1).all()
        assert (session.run(slot) == 1).all()


def test_a_resource_slot_that_is_not_initialised_or_of_another_type_is_named() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(tf.ones([3]), use_resource=True)
        slot, of_doubles = tf1.Variable(tf.zeros([3]), use_resource=True), of_shape([3], "resource", tf.float64)
        steps = apply(variable, [slot]), apply(variable, [of_doubles])
        session.run([variable.initializer, of_doubles.initializer])
        with pytest.raises(tf.errors.FailedPreconditionError, match="not initialized"):
            session.run(steps[0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="slot 0 is double and the gradient is float"):
            session.run(steps[1])
        assert (session.run(variable) == 1).all()


@pytest.mark.parametrize("strategy", sorted({*WITHOUT_OPTIMISER_STATE} - {"itm"}))
def test_a_strategy_that_would_leave_the_slots_out_is_refused(strategy: str) -> None:
    with tf.Graph().as_default():
        variable, slot = (tf1.Variable(tf.ones([3]), use_resource=True) for _ in range(2))
        with pytest.raises(ValueError, match=f"optimiser momentum does not go with strategy '{strategy}'"):
            apply(variable, [slot], strategy=strategy)


def test_an_operation_refuses_a_strategy_or_kernel_without_slots() -> None:
    """Also one that is not made by `apply_gradient_descent`."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, slot = (tf1.Variable(tf.ones([3]), use_resource=True) for _ in range(2))
        tracker = ops.Tracker(1, ["weights"])
        given = {"strategy": "lock", "parameters": ["kernel=fused"], "variable": 0, "optimiser": "momentum"}
        step = loader.ops().tmflow_resource_apply_optimiser(
            variable.op.outputs[0], RATE, tf.ones([3]), tracker.handle, 0, [slot.op.outputs[0]], **given
        )
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.UnimplementedError, match="momentum has its own update loop, so kernel must"):
            session.run(step)


def test_mutexes_of_slots_need_slots() -> None:
    with tf.Graph().as_default():
        tracker = ops.Tracker(1, ["weights"])
        variable = tf1.Variable(tf.ones([3]), use_resource=True, name="weights")
        with pytest.raises(ValueError, match="subscription slots of strategy 'htm' needs an optimiser with slots"):
            ops.apply_gradient_descent(
                variable, RATE, tf.ones([3]), strategy=resolve("htm", PARAMETERS["htm"]), tracker=tracker,
                worker=0, index=0,
            )  # fmt: skip


@pytest.mark.parametrize("strategy", ["lock", "tf_lock"])
def test_adam_does_not_update_rows(strategy: str) -> None:
    with tf.Graph().as_default():
        variable = tf1.Variable(tf.ones(SHAPE), use_resource=True, name="table")
        tracker = ops.Tracker(1, ["table"])
        steps = Slots("adam", [variable], tracker).begin(RATE, tracker.begin_step())
        loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, tf.constant([1, 2])))
        with pytest.raises(BadInput, match="optimiser adam cannot update rows of table"):
            minimise(
                loss, [variable], RATE, strategy=resolve(strategy), tracker=tracker, worker=0, steps=steps,
            )  # fmt: skip


def test_an_optimiser_without_slots_or_another_rate_is_refused() -> None:
    with tf.Graph().as_default():
        variable, tracker = tf1.Variable(tf.ones([3]), use_resource=True), ops.Tracker(1, ["w"])
        for name in ("sgd", "nadam"):
            with pytest.raises(BadInput, match=f"optimiser is '{name}'; those with slots are momentum, adagrad, adam."):
                Slots(name, [variable], tracker)
        (step,) = Slots("momentum", [variable], tracker).begin(RATE, tracker.begin_step())
        with pytest.raises(BadInput, match=r"learning_rate is 1\.0, but the step was begun with 0\.05"):
            ops.apply_gradient_descent(
                variable, 1.0, tf.ones([3]), strategy=resolve("lock"), tracker=tracker, worker=0, index=0, step=step
            )


@pytest.mark.parametrize("has_slots", [False, True])
def test_a_tracker_with_full_measures_is_for_updates_with_or_without_slots(has_slots: bool) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(tf.ones([3]), use_resource=True)
        tracker = ops.Tracker(1, ["w"], "full", has_slots=has_slots)
        given: dict[str, Any] = {"strategy": resolve("lock"), "tracker": tracker, "worker": 0, "index": 0}
        if not has_slots:
            (given["step"],) = Slots("momentum", [variable], tracker).begin(RATE, tracker.begin_step())
        update = ops.apply_gradient_descent(variable, RATE, tf.ones([3]), **given)
        session.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"slots of an optimiser \(has_slots\), and this one"):
            session.run(update)
        assert (session.run(variable) == 1).all()
