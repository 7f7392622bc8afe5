"""`tmflow advise`: it ranks what it measures, leaves the model as it was, and says what it could not do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.own_model.clockwork import Clockwork, always, let_time_pass_by
from tests.own_model.digits import digits_model, prepare_more_ways
from tmflow.advice import measurement
from tmflow.advice.advice import Advice, StepParts, advise, advise_for_sizes, measured_advice, rank
from tmflow.advice.candidates import Way, other_workers, strategies_for
from tmflow.advice.measurement import Measurement, count, measure, shuffled
from tmflow.advice.sized_variables import SizedVariables
from tmflow.base.errors import BadInput
from tmflow.spec.shapes import Shape

FAST, SLOW, OWN = Way("striped", 2), Way("lock", 2), Way(None)


def test_every_round_measures_every_way_in_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Clockwork({FAST: always(10), SLOW: always(20), OWN: always(40)})
    let_time_pass_by(subject, monkeypatch)
    measured = measure(subject, [FAST, SLOW, OWN, Way("none")], 20, lambda _: None)
    assert measured.rounds == 12  # of 1.6 s
    assert measured.us[FAST] == pytest.approx([10.0] * measured.rounds)
    assert measured.left_out == {Way("none"): "there is no such thing."}
    assert [(one.round, one.ordinal) for one in measured.slices[:4]] == [(1, 0), (1, 1), (1, 2), (2, 0)]
    assert [one.way for one in measured.slices] == subject.ran[-3 * measured.rounds :]
    assert [one.way for one in measured.slices[:3]] == shuffled([FAST, SLOW, OWN], 0)
    assert measured.slices[0].started_at_utc <= measured.slices[-1].started_at_utc
    rounds = [tuple(subject.ran[i : i + 3]) for i in range(6, len(subject.ran) - 2, 3)]
    assert all(len(set(one)) == 3 for one in rounds)
    assert len(set(rounds)) > 1


def test_ways_of_about_the_same_speed_make_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that their runs compare in the database."""
    one = Way("spin", 1)
    subject = Clockwork({FAST: always(1000), SLOW: always(1300), one: always(1900), OWN: always(2100)})
    let_time_pass_by(subject, monkeypatch)
    measured = measure(subject, [FAST, SLOW, one, OWN], 20, lambda _: None)
    assert measured.calls == {FAST: 400, SLOW: 400, one: 400, OWN: 190}


def test_the_runs_that_count_are_a_round_after_the_others() -> None:
    subject = SizedVariables([Shape((10,))], 0, consistency="block")
    measured = Measurement(calls={FAST: 100, Way("nolock", 2): 50}, rounds=4)
    counts = count(subject, [Way("nolock", 2), FAST], measured, lambda _: None)
    assert list(counts) == [Way("nolock", 2), FAST]
    assert [one.way for one in measured.slices] == shuffled([Way("nolock", 2), FAST], 4)
    assert {(one.round, one.steps, len(one.lost or ())) for one in measured.slices} == {(5, 100, 1), (5, 50, 1)}


def test_a_way_is_left_out_if_half_of_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Clockwork):
        def prepare(self, way: Way) -> None:
            super().prepare(way)
            self.passed_s += 30

    subject = Slow({FAST: always(10), SLOW: always(20)})
    let_time_pass_by(subject, monkeypatch)
    measured = measure(subject, [FAST, SLOW], 50, lambda _: None)
    assert list(measured.us) == [FAST]
    assert measured.left_out == {SLOW: "no time was left"}


def test_the_ranking_begins_with_the_fastest_candidate_and_pairs_by_round() -> None:
    measured = Measurement(us={SLOW: [20.0, 40.0, 10.0], FAST: [10.0, 20.0, 5.0], OWN: [9.0, 21.0, 5.0]}, rounds=3)
    ranking = rank(measured, [SLOW, FAST, Way("spin", 2)])
    assert [(row.way, row.candidate) for row in ranking] == [(FAST, True), (SLOW, True), (OWN, False)]
    assert ranking[0].ratio is None
    assert ranking[1].ratio is not None
    assert ranking[1].ratio[:3] == pytest.approx((2, 2, 2))
    assert ranking[2].ratio is not None
    assert ranking[2].ratio.low < 1 < ranking[2].ratio.high


def test_no_candidate_is_an_error_with_the_reasons() -> None:
    measured = Measurement(us={OWN: [1.0]}, left_out={FAST: "no time was left"})
    with pytest.raises(BadInput, match=r"no strategy could be measured \(striped, 2 workers: no time was left\)"):
        rank(measured, [FAST])


def test_what_is_faster_than_all_candidates_is_recommended() -> None:
    measured = Measurement(
        us={FAST: [10.0, 20.0, 5.0], OWN: [5.0, 10.1, 2.5], Way("nolock", 2): [1.0, 2.0, 0.5]}, rounds=3
    )
    advice = Advice(
        "", "", 2, "block", 3, None, rank(measured, [FAST]), {}, StepParts(FAST, True, None, None), [], [], {}
    )
    assert advice.best.way == FAST
    assert advice.recommended.way == OWN
    assert "Keras's optimizer, one thread is faster than all of them." in text_of(advice)


def test_candidates_guarantee_the_consistency_and_update_the_optimiser() -> None:
    of_tensor, of_block = set(strategies_for("tensor", "sgd")), set(strategies_for("block", "sgd"))
    assert of_tensor >= {"auto", "lock", "spin", "block_stm"}
    assert not of_tensor & {"striped", "combining", "atomic", "nolock"}
    assert of_block >= of_tensor | {"striped", "combining"}
    assert "atomic" in strategies_for("element", "sgd")
    assert "atomic" not in strategies_for("element", "adam")


def test_other_numbers_of_workers_show_whether_more_help() -> None:
    assert other_workers(1, 1) == []
    assert other_workers(2, 2) == [1]
    assert other_workers(4, 4) == [1, 2]
    assert other_workers(4, 8) == [1, 2, 8]
    assert other_workers(8, 4) == [1, 4]


def text_of(advice: Advice) -> list[str]:
    return str(advice).splitlines()


def assert_says_how_to_train(advice: Advice, model: Any, data: Any, optimizer: str) -> None:
    """With this optimizer, unless Keras's own was the fastest here: the advice ends with what its winner needs."""
    from tmflow.advice.rehearsal import Rehearsal

    rehearsal = Rehearsal(model, data, consistency="block")
    of_winner, of_best = (rehearsal.lines(row.way, advice.consistency) for row in (advice.recommended, advice.best))
    rehearsal.close()
    assert advice.lines == of_winner
    assert text_of(advice)[-len(of_winner) - 1 :] == ["To train so:", *(f"    {line}" for line in of_winner)]
    assert f"model.compile({optimizer}" in of_best[1]


def test_a_single_strategy_is_said_to_be_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Clockwork({Way("auto", 2, 16): always(10), Way("auto"): always(25)})
    let_time_pass_by(subject, monkeypatch)
    advice = measured_advice(subject, 2, "block", 20, progress=lambda _: None)
    assert advice.finding == "auto is the only strategy that was measured."


def test_what_is_not_different_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Clockwork(
        {
            Way("auto", 2, 16): always(10), Way("striped", 2, 16): itertools.cycle([9.0, 12.0, 10.6]),
            Way("lock", 2, 16): always(30), OWN: always(40), Way(None, per_call=16): always(35),
            Way("nolock", 2, 16): always(9), Way("auto", 1, 16): always(20), Way("auto"): always(25),
            Way("auto", 2, 16, "without update"): always(6), Way("auto", 2, 16, "with copies"): always(12),
        }
    )  # fmt: skip
    let_time_pass_by(subject, monkeypatch)
    advice = measured_advice(subject, 2, "block", 60, progress=lambda _: None)
    lines = text_of(advice)
    assert lines[0] == "clockwork"
    assert any(line.startswith("auto has the smallest time, but no difference to striped was found.") for line in lines)
    assert "By the number of workers, auto takes 20 us with 1 and 10 us with 2." in lines
    assert any(line.startswith("Keras's optimizer in one thread takes 4.00") for line in lines)
    assert "Not measured: spin, 2 workers: there is no such thing." in lines
    assert lines[-1] == "    auto, 2 workers block"
    computing = "Without its update a step of auto, 2 workers takes 0.600 [0.600, 0.600] of the time: that is computing"
    assert any(line.startswith(computing) for line in lines)
    values = 'With reads="values" a step of auto, 2 workers takes 1.20 [1.20, 1.20] of the time'
    assert any(line.startswith(values) for line in lines)
    assert {row.way.step for row in advice.ranking} == {"whole"}  # a part of a step is no way to train
    assert advice.recommended.way == Way("auto", 2, 16)
    assert advice.as_json()["parts"] == {
        "strategy": "auto", "workers": 2, "reads_in_place": True,
        "computing": pytest.approx([0.6] * 3), "copying": pytest.approx([1.2] * 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"consistency": "strong"}, "consistency is 'strong', but should be one of element, block, tensor."),
        ({"consistency": "none"}, "consistency is 'none'"),
        ({"seconds": 1}, "seconds is 1, but should be a number from 10 to 3,600."),
        ({"step_us": -1.0}, "step_us is -1, but should be a number from 0 to 60,000,000."),
    ],
)
def test_bad_numbers_are_named(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        advise_for_sizes("10", **{"step_us": 1.0, **arguments})


@pytest.mark.slow
class TestOfAModel:
    """With a Keras model."""

    @pytest.fixture(autouse=True)
    def _keras(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("keras", reason="Keras comes with TensorFlow")
        prepare_more_ways(monkeypatch)

    def test_the_model_is_as_it_was(self) -> None:
        model, data, test = digits_model()
        model.fit(data, epochs=1, verbose=0)
        optimizer, values = model.optimizer, [value.numpy() for value in model.variables]
        advice = advise(model, data, 2, validation=test, seconds=30)
        assert model.optimizer is optimizer
        assert int(optimizer.iterations) == 188
        for value, before in zip(model.variables, values, strict=True):
            np.testing.assert_array_equal(value.numpy(), before)
        ways = {str(row.way.strategy) for row in advice.ranking if row.candidate}
        assert {"auto", "striped"} <= ways
        assert advice.rounds >= 3
        counted = advice.counts[str(advice.best.way.strategy)]
        assert counted.lost == 0
        assert 0 <= counted.torn < counted.reads
        assert advice.parts.computing is not None
        assert advice.parts.computing.estimate > 0
        assert advice.parts.copying is not None
        assert [one.way for one in advice.accuracy if one.way.strategy is None] == [Way(None)]
        assert all(one.reached["accuracy"] > 0.7 for one in advice.accuracy)
        assert model.fit(data, epochs=2, verbose=0).history["accuracy"][-1] > 0.8

    def test_the_advice_can_be_followed_in_the_same_process(self) -> None:
        import tmflow
        from tmflow import optimizers

        model, data, _ = digits_model()
        advise(model, data, 2, seconds=15)
        for strategy in ("lock", "striped"):
            model.compile(optimizers.SGD(0.1, strategy=strategy), loss="sparse_categorical_crossentropy")
            tmflow.Workers(2).fit(model, data, verbose=0)
        assert sum(row["updates"] for row in model.optimizer.counters().counters) == 4 * 188

    def test_a_model_with_an_embedding(self) -> None:
        import keras
        import tensorflow as tf

        draw = np.random.default_rng(3)
        numbers, truth = draw.integers(0, 500, (2000, 2)), draw.integers(0, 2, 2000)
        model = keras.Sequential(
            [keras.layers.Embedding(500, 4), keras.layers.Flatten(), keras.layers.Dense(1, activation="sigmoid")]
        )
        model.compile(keras.optimizers.Adam(), loss="binary_crossentropy")
        data = tf.data.Dataset.from_tensor_slices((numbers, truth)).batch(16)
        advice = advise(model, data, 2, seconds=25, consistency="tensor")
        assert {str(row.way.strategy) for row in advice.ranking if row.candidate} >= {"auto", "lock"}
        counted = advice.counts[str(advice.best.way.strategy)]
        assert counted.lost == 0
        assert {one["variable"]: one["expected"] > 0 for one in counted.run.lost} == {
            f"variable {number}": True for number in (1, 2, 3)
        }
        assert counted.reads == 2 * counted.run.steps  # the rows of the embedding are read as usual
        assert 0 <= advice.counts["nolock"].lost < 1
        assert_says_how_to_train(advice, model, data, "tmflow.optimizers.Adam(0.001, ")

    def test_a_training_for_the_accuracy_begins_with_a_new_optimizer(self) -> None:
        import keras

        from tmflow.advice.rehearsal import Rehearsal

        schedule = keras.optimizers.schedules.PiecewiseConstantDecay([3], [0.5, 0.0])
        model, data, test = digits_model(keras.optimizers.SGD(schedule))
        before = model.evaluate(*test, verbose=0, return_dict=True)["loss"]
        rehearsal = Rehearsal(model, data, consistency="block")
        way = Way("lock", 1, 4)
        rehearsal.prepare(way)
        rehearsal.run(way, 20)  # the rate of its optimizer is 0 now
        _, reached = rehearsal.reached(way, 10, test)
        assert reached["loss"] < before - 0.02
        rehearsal.close()

    def test_a_model_of_an_optimizer_of_tmflow_can_train_on(self) -> None:
        import tmflow
        from tmflow import optimizers

        model, data, _ = digits_model(optimizers.SGD(0.1, strategy="combining", momentum=0.9))
        tmflow.Workers(2).fit(model, data, verbose=0)
        advice = advise(model, data, 2, seconds=25)
        assert sum(row["updates"] for row in model.optimizer.counters().counters) == 4 * 188
        assert_says_how_to_train(advice, model, data, "tmflow.optimizers.SGD(0.1, momentum=0.9, ")
        tmflow.Workers(2).fit(model, data, verbose=0)
        assert sum(row["updates"] for row in model.optimizer.counters().counters) == 8 * 188
        model.compile(optimizers.SGD(0.1, strategy="lock"), loss="sparse_categorical_crossentropy")
        tmflow.Workers(2).fit(model, data, verbose=0)

    def test_an_interrupt_leaves_a_model_that_trains(self) -> None:
        import tmflow
        from tmflow import optimizers

        model, data, _ = digits_model(optimizers.SGD(0.1, strategy="combining"))
        tmflow.Workers(2).fit(model, data, verbose=0)
        values = model.get_weights()

        def interrupt(what: str) -> None:
            if what == "round 2":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            advise(model, data, 2, seconds=10, progress=interrupt)
        for value, before in zip(model.get_weights(), values, strict=True):
            np.testing.assert_array_equal(value, before)
        tmflow.Workers(2).fit(model, data, verbose=0)

    @pytest.mark.parametrize(
        ("data", "sentence"),
        [
            (lambda data: (np.ones((4, 64)), np.ones(4)), "the data is of type tuple, but should be a tf.data.Dataset"),
            (lambda data: np.ones((4, 64)), "the data is of type ndarray"),
            (lambda data: data.repeat(), "the dataset is infinite"),
        ],
    )
    def test_other_data_is_refused(self, data: Any, sentence: str) -> None:
        model, batches, _ = digits_model()
        with pytest.raises(BadInput, match=sentence):
            advise(model, data(batches), seconds=10)
        with pytest.raises(BadInput, match="validation should be"):
            advise(model, batches, seconds=10, validation=[1, 2])

    @pytest.mark.parametrize(
        ("optimizer", "sentence"),
        [("rmsprop", "the optimizer is RMSprop; tmflow has SGD, Adagrad and Adam."), ("adamw", "AdamW; tmflow has")],
    )
    def test_other_optimizers_are_refused(self, optimizer: str, sentence: str) -> None:
        model, data, _ = digits_model(optimizer)
        with pytest.raises(BadInput, match=sentence):
            advise(model, data, seconds=10)

    def test_a_model_without_variables_and_data_without_a_batch_are_refused(self) -> None:
        import keras

        model, data, _ = digits_model()
        with pytest.raises(BadInput, match="the data has no batch"):
            advise(model, data.take(0), seconds=10)
        empty = keras.Sequential([keras.Input((64,)), keras.layers.Rescaling(2)])
        empty.compile("sgd", "mse")
        with pytest.raises(BadInput, match="the model has no trainable variables"):
            advise(empty, data, seconds=10)
        with pytest.raises(BadInput, match="the model is not compiled"):
            advise(keras.Sequential([keras.layers.Dense(1)]), data, seconds=10)


def test_a_round_has_as_many_calls_for_every_worker() -> None:
    subject = Clockwork({FAST: always(1000), Way("lock", 3, 16): always(1000), Way("spin", 2): always(1e6)})
    assert measurement.calls_of_slice(subject, FAST) == 400
    assert measurement.calls_of_slice(subject, Way("lock", 3, 16)) == 24
    assert measurement.calls_of_slice(subject, Way("spin", 2)) == 8


@pytest.mark.parametrize(("us", "steps"), [(100, 16), (30_000, 6), (1e6, 1)])
def test_calls_of_long_steps_have_fewer_of_them(us: float, steps: int) -> None:
    assert measurement.steps_of_call(Clockwork({Way("auto"): always(us)})) == steps
