"""What a way loses, how many reads are torn, and where the time of a step goes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.own_model.digits import digits_model
from tmflow.advice import sized_variables
from tmflow.advice.advice import Advice, RankedWay, StepParts
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import Counts
from tmflow.advice.sized_variables import SizedVariables
from tmflow.analysis.stats import Interval
from tmflow.arrays.shared_parameters import SharedParameters
from tmflow.base.errors import BadInput
from tmflow.spec.shapes import Shape


def test_lost_updates_of_sized_variables_are_counted() -> None:
    subject = SizedVariables([Shape((300, 10)), Shape((10,))], 0, consistency="block")
    for strategy in ("auto", "striped", "lock"):
        assert subject.count(Way(strategy, 2), 2000).lost == 0
    counted = subject.count(Way("nolock", 1), 500)
    assert counted.lost == 0
    assert counted.run is not None
    assert counted.run.steps == 500
    assert counted.run.lost == [
        {"variable": "variable 1", "expected": 1_500_000, "lost": 0},
        {"variable": "variable 2", "expected": 5000, "lost": 0},
    ]
    arrays = subject._values
    assert all((array == 500).all() for array in arrays.values())


def test_rows_of_sized_variables_are_updated_and_counted() -> None:
    subject = SizedVariables([Shape((50, 4), rows=3), Shape((10,))], 0, consistency="block")
    assert subject.description == "210 float32 in 2 variables, 22 of which are updated after every 0 us of work"
    for strategy in ("auto", "striped", "lock"):
        assert subject.count(Way(strategy, 2), 2000).lost == 0
    rows = subject._values["variable 1"]
    assert rows.sum() == 2000 * 3 * 4
    assert (rows == rows[:, :1]).all()  # whole rows
    assert len(np.unique(rows[:, 0])) > 1  # different ones in different steps


def test_torn_reads_of_sized_variables_are_counted() -> None:
    subject = SizedVariables([Shape((300, 10)), Shape((50, 4), rows=3)], 0, consistency="block")
    alone = subject.count(Way("nolock", 1), 500)
    assert (alone.reads, alone.torn) == (1000, 0)
    assert subject.count(Way("lock", 2), 500).reads == 1000
    elsewhere = subject.count(Way("atomic", 2), 200)  # each element is changed by itself
    assert elsewhere.lost == 0


def test_rows_that_are_too_many_to_watch_are_counted_by_their_values() -> None:
    counted = SizedVariables([Shape((1_100_000, 1), rows=3)], 0, consistency="block").count(Way("lock", 2), 50)
    assert (counted.lost, counted.reads, counted.torn) == (0, None, None)


def test_parts_of_a_step_of_sized_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step without its update only works, and one with copies copies each variable before it works."""
    done: list[str] = []

    class Recorded(SharedParameters):
        def copy(self, name: str, rows: Any = None) -> Any:
            done.append(f"copy {name}")
            return super().copy(name, rows)

        def apply(self, gradients: Any, learning_rate: float) -> None:
            done.append(f"apply {list(gradients)}")
            super().apply(gradients, learning_rate)

    subject = SizedVariables([Shape((2000,)), Shape((50, 4), rows=3)], 0, consistency="block")
    monkeypatch.setattr(sized_variables, "SharedParameters", Recorded)
    monkeypatch.setattr(subject, "_work", lambda: done.append("work"))
    copies, applied = [f"copy variable {number}" for number in (1, 2)], "apply ['variable 1', 'variable 2']"
    for step, parts in (
        ("whole", ["work", applied]),
        ("with copies", [*copies, "work", applied]),
        ("without update", ["work"]),
    ):
        done.clear()
        assert subject.run(Way("lock", 1, 1, step), 5) > 0
        assert done == 5 * parts
    assert all((array == 0).all() for array in subject._values.values())  # after the last one


def test_work_between_updates_takes_about_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It computes as many sines as the machine does in that time, whatever the time is."""
    computed: list[int] = []

    def sin(array: NDArray[Any], out: NDArray[Any]) -> None:
        computed.append(array.size)
        out[:] = array

    monkeypatch.setattr(sized_variables, "_arithmetic_speed", lambda: 30.0)  # sines in a microsecond
    monkeypatch.setattr(sized_variables, "np", SimpleNamespace(**{**vars(np), "sin": sin}))
    for us, in_a_step in ((0, 0), (0.5, 15), (100, 3000), (2000, 60_000), (2500, 75_000)):
        computed.clear()
        SizedVariables([Shape((10,))], us, consistency="block").run(Way("lock", 1), 20)
        assert sum(computed) == 20 * in_a_step


def test_the_speed_of_the_arithmetic_is_the_best_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(time for took_s in (4e-4, 2e-4, *[3e-4] * 18) for time in (1.0, 1.0 + took_s))
    monkeypatch.setattr(sized_variables, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    speed = sized_variables._arithmetic_speed()
    assert speed == pytest.approx(sized_variables.WORK_ELEMENTS / 200)  # in a microsecond


@pytest.mark.slow
class TestOfAModel:
    """With a Keras model."""

    @pytest.fixture(autouse=True)
    def _keras(self) -> None:
        pytest.importorskip("keras", reason="Keras comes with TensorFlow")

    def test_every_read_of_the_run_that_counts_is_counted(self) -> None:
        from tmflow.advice.rehearsal import Rehearsal

        model, data, _ = digits_model()
        rehearsal = Rehearsal(model, data, consistency="block")
        alone = rehearsal.count(Way("nolock", 1, 4), 10)
        assert (alone.lost, alone.reads, alone.torn) == (0, 10 * 4 * 4, 0)  # 4 variables, each read once in a step
        assert rehearsal.count(Way("lock", 2, 4), 10).reads == 160
        rehearsal.close()

    def test_after_a_failed_step_the_next_ones_begin_with_the_first_batch(self) -> None:
        import keras
        import tensorflow as tf

        from tmflow.advice.rehearsal import Rehearsal

        seen: list[float] = []

        class Watched(keras.layers.Layer):
            def call(self, inputs: Any) -> Any:
                def look(values: Any) -> Any:
                    seen.append(float(values[0, 0]))
                    if len(seen) == 1:
                        raise ValueError("at the first step")
                    return values

                return tf.ensure_shape(tf.numpy_function(look, [inputs], inputs.dtype), inputs.shape)

        model = keras.Sequential([keras.Input((1,)), Watched(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        numbers = np.arange(20, dtype=np.float32)[:, None]
        rehearsal = Rehearsal(
            model, tf.data.Dataset.from_tensor_slices((numbers, numbers)).batch(2), consistency="block"
        )
        with pytest.raises(BadInput, match=r"lock, 1 worker cannot train this model: .*at the first step"):
            rehearsal.prepare(Way("lock", 1, 1))
        rehearsal.prepare(Way("spin", 1, 1))
        assert seen == [0.0, 0.0]
        rehearsal.close()

    def test_a_step_without_its_update_computes_the_gradients_and_changes_nothing(self) -> None:
        import keras
        import tensorflow as tf

        from tmflow.advice.rehearsal import Rehearsal

        computed: list[int] = []

        def count(gradient: Any) -> Any:
            computed.append(1)
            return gradient

        @tf.custom_gradient
        def watched(kernel: Any) -> Any:
            # Stateless, so that TensorFlow leaves it out where nothing needs its result.
            return kernel, lambda gradient: tf.numpy_function(count, [gradient], gradient.dtype, stateful=False)

        class Product(keras.layers.Layer):
            def build(self, shape: Any) -> None:
                self.kernel = self.add_weight(shape=(shape[-1], 10), name="kernel")
                self.add_weight(shape=(3,), name="unused")

            def call(self, inputs: Any) -> Any:
                return inputs @ watched(self.kernel)

        model = keras.Sequential([keras.Input((64,)), Product()])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        data = tf.data.Dataset.from_tensors((np.ones((8, 64), "f4"), np.ones((8, 10), "f4")))
        rehearsal = Rehearsal(model, data, consistency="block")
        before = model.get_weights()
        with pytest.warns(UserWarning, match="Gradients do not exist for variables"):
            counted = rehearsal.count(Way("lock", 1, 4), 5)  # the weight that is not used is not counted
        assert [row["variable"] for row in counted.run.lost] == ["variable 1"]
        way = Way("lock", 1, 4, "without update")
        rehearsal.prepare(way)
        computed.clear()
        rehearsal.run(way, 5)
        assert len(computed) == (1 + 5) * 4  # a call before the clock, and 4 steps in each
        for value, was in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(value, was)
        rehearsal.close()

    def test_copies_train_as_the_memory_does(self) -> None:
        from tmflow.advice.rehearsal import Rehearsal

        values = {}
        for step in ("whole", "with copies"):
            model, data, _ = digits_model()
            model.layers[1].rate = 0  # of the dropout, whose masks would differ
            rehearsal = Rehearsal(model, data, consistency="block")
            way = Way("lock", 1, 4, step)
            rehearsal.prepare(way)
            rehearsal._batches = iter(data)
            rehearsal.run(way, 5)
            values[step] = model.get_weights()
        for one, other in zip(*values.values(), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_an_embedding_that_needs_too_many_counts_is_refused_with_the_reason(self) -> None:
        import keras
        import tensorflow as tf

        from tmflow.advice.rehearsal import Rehearsal

        model = keras.Sequential([keras.layers.Embedding(50_000, 100), keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        data = tf.data.Dataset.from_tensors((np.ones((8, 2), np.int64), np.ones((8, 1), "f4")))
        rehearsal = Rehearsal(model, data, consistency="block")
        with pytest.raises(BadInput, match=r"^full measures would need 1250000 counts of rows"):
            rehearsal.count(Way("striped", 1, 4), 5)
        assert rehearsal.count(Way("lock", 1, 4), 5).lost == 0
        rehearsal.close()


class TestText:
    """What the screen says of the counts and of the parts of a step."""

    def said(self, counts: Counts, parts: StepParts, rounds: int = 6) -> list[str]:
        ranking = [RankedWay(Way("auto", 2), 10.0, None, True)]
        return str(Advice("", "", 2, "block", rounds, None, ranking, {"auto": counts}, parts, [], [], {})).splitlines()

    @pytest.mark.parametrize(
        ("torn", "share"), [(0, "none"), (1, "0.1 %"), (995, "99.5 %"), (999, "99.9 %"), (1000, "100 %")]
    )
    def test_torn_reads(self, torn: int, share: str) -> None:
        counted = Counts(0.0, 1000, torn, 0.05, 1234.0)
        said = self.said(counted, StepParts(Way("auto", 2), True, None, None))
        assert f"auto lost no update in a run that counts, and {share} of its 1,000 counted reads were torn." in said
        assert any("waited 0.05 us for locks in it and held them for 1234 us" in line for line in said)

    def test_what_cannot_be_counted_has_its_reason(self) -> None:
        said = self.said(Counts(0.002, uncounted="too many."), StepParts(Way("auto", 2), True, None, None))
        sentence = "auto lost 0.2 % of the updates of elements in a run that counts, and torn reads are not counted"
        assert f"{sentence} (too many)." in said

    @pytest.mark.parametrize(
        ("computing", "sentence"),
        [
            (Interval(0.7, 0.6, 0.8, 6), "[0.600, 0.800] of the time: that is computing and reading the variables in"),
            (Interval(1.0, 0.9, 1.1, 6), "[0.900, 1.100] of the time: no time of the update was found."),
        ],
    )
    def test_a_step_without_its_update(self, computing: Interval, sentence: str) -> None:
        said = self.said(Counts(0.0), StepParts(Way("auto", 2), True, computing, None))
        assert any(sentence in line for line in said)

    @pytest.mark.parametrize(
        ("copying", "rounds", "end"),
        [
            (Interval(1.2, 1.1, 1.3, 6), 6, "of the time."),
            (Interval(1.2, 1.1, 1.3, 3), 3, "of the time, but 3 rounds are too few to conclude."),
            (Interval(1.0, 0.9, 1.1, 6), 6, "of the time: no difference was found."),
            (Interval(0.8, 0.7, 0.9, 6), 6, "of the time: it is an argument of fit."),
        ],
    )
    def test_reads_of_values(self, copying: Interval, rounds: int, end: str) -> None:
        said = self.said(Counts(0.0), StepParts(Way("auto", 2), True, None, copying), rounds)
        (line,) = [line for line in said if line.startswith('With reads="values" a step of auto, 2 workers takes ')]
        assert line.endswith(end)
