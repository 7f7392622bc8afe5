"""Synthetic ratings and text: frequencies, labels that follow from the truth, and wrong factors."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.training.conftest import make_spec
from tmflow import cli
from tmflow.base.errors import BadInput
from tmflow.spec.models import MODELS
from tmflow.training import synthetic
from tmflow.training.synthetic import contexts, images, ratings

N = ratings.TRAIN + ratings.TEST


def test_users_and_items_are_drawn_by_zipfs_law() -> None:
    for skew in (0.0, 1.0, 1.5):
        drawn = ratings.draw(3, 40, 30, skew)
        assert drawn.rows.dtype == np.int32
        for column, first, things in ((0, 0, 40), (1, 40, 30)):
            counts = np.bincount(drawn.rows[:, column] - first, minlength=things)
            law = np.arange(1, things + 1) ** -skew
            law /= law.sum()
            assert (abs(np.sort(counts)[::-1] / N - law) < 5 * np.sqrt(law * (1 - law) / N)).all()


def test_a_user_likes_an_item_as_often_as_the_truth_says() -> None:
    drawn = ratings.draw(4, 300, 300, 0.0)
    assert drawn.scores.std() == pytest.approx(ratings.SCALE, rel=0.1)
    probability = 1 / (1 + np.exp(-drawn.scores))
    for likely in (0.2, 0.5, 0.8):
        near = abs(probability - likely) < 0.05
        share = drawn.labels[near].mean()
        assert share == pytest.approx(probability[near].mean(), abs=4 * np.sqrt(0.25 / near.sum()))


@pytest.mark.parametrize(("words", "negatives", "skew"), [(16, 1, 0.0), (80, 9, 1.5), (5000, 5, 1.0)])
def test_the_words_of_an_example_differ_and_are_in_order(words: int, negatives: int, skew: float) -> None:
    drawn = contexts.draw(3, words, negatives, skew)
    assert drawn.rows.shape == (N, 2 + negatives)
    assert drawn.odds.shape == (N, 1 + negatives)
    assert drawn.rows.dtype == np.int32
    centres, others = drawn.rows[:, 0], drawn.rows[:, 1:]
    assert centres.min() >= 0
    assert centres.max() < words <= others.min()
    assert others.max() < 2 * words
    assert (np.diff(others, axis=1) > 0).all()
    if skew == 0:
        places = np.bincount(drawn.labels, minlength=1 + negatives) / N
        assert abs(places - 1 / (1 + negatives)).max() < 0.02  # the place of the word that was near says nothing


def test_words_near_each_other_are_of_one_topic() -> None:
    """Without skew, all words of other topics are equally likely, and those of the centre's much more."""
    drawn = contexts.draw(5, 80, 4, 0.0)
    near = np.take_along_axis(drawn.rows, 1 + drawn.labels[:, np.newaxis], axis=1)[:, 0] - 80
    together = np.zeros((80, 80))
    np.add.at(together, (drawn.rows[:, 0], near), 1)
    of_one_topic = together > together.sum(axis=1, keepdims=True) / 80 * 2
    assert (of_one_topic.sum(axis=1) == 80 / contexts.TOPICS).all()
    assert (of_one_topic == of_one_topic.T).all()
    share = together[of_one_topic].sum() / N
    assert share == pytest.approx(contexts.TOGETHER + (1 - contexts.TOGETHER) / contexts.TOPICS, abs=0.01)


@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_the_odds_predict_the_word_that_was_near(skew: float) -> None:
    """Of the examples whose likeliest word has a given probability, as many have that word near."""
    drawn = contexts.draw(6, 400, 3, skew)
    probability = (drawn.odds / drawn.odds.sum(axis=1, keepdims=True)).max(axis=1)
    right = drawn.odds.argmax(axis=1) == drawn.labels
    ranges = [(low <= probability) & (probability < low + 0.1) for low in np.arange(0.2, 1, 0.1)]
    many = [of for of in ranges if of.sum() > 1000]
    assert len(many) > 2
    for of in many:
        # The negatives are drawn without repetition, which the odds ignore.
        assert right[of].mean() == pytest.approx(probability[of].mean(), abs=0.03)


def test_they_are_a_function_of_the_seed() -> None:
    for one, again, other in (
        [ratings.draw(seed, 40, 30, 1.0) for seed in (5, 5, 6)],
        [contexts.draw(seed, 80, 4, 1.0) for seed in (5, 5, 6)],
    ):
        np.testing.assert_array_equal(again.rows, one.rows)
        np.testing.assert_array_equal(again.labels, one.labels)
        assert (other.rows != one.rows).any()


@pytest.mark.parametrize("model", ["matrix_factorisation", "skipgram"])
def test_a_trial_has_examples_for_training_and_for_tests(model: str) -> None:
    source, data = synthetic.source_of(model), synthetic.of_spec(make_spec(model), 5)
    assert len(data.train_images) == len(data.train_labels) == source.TRAIN
    assert len(data.test_images) == len(data.test_digits) == source.TEST


@pytest.mark.parametrize(
    ("model", "sha256"),
    [
        ("alexnet", "36908014a0241a226973c97f2498a1908cd305b72a17967be529bb2d22d4df8f"),
        ("sparse_logistic", "7af33613a4c11695d7e79b4106e0f6f7bb04929558c171814ee830fd1159f59b"),
        ("matrix_factorisation", "4990a466dc95a83638765fbc7cd1d4a19bf0b1993058bc7775e9a935b70bb54d"),
        ("skipgram", "bc1bbc78f05c614de411cb57e949c695ddf9f313a357dcace893a077012914bb"),
    ],
)
def test_the_data_have_the_identity_of_published_runs(model: str, sha256: str) -> None:
    """A hash says what makes the data, so whoever changes the draws must change the identity."""
    assert synthetic.sha256(make_spec(model)) == sha256


def test_every_model_of_rows_has_its_data() -> None:
    of_rows = {name for name, model in MODELS.items() if model.by_rows}
    assert of_rows == set(synthetic._OF_ROWS)
    assert synthetic.source_of("vgg16") is images


@pytest.mark.parametrize(
    ("model", "arguments", "says"),
    [
        ("skipgram", ("--words", "16", "--negatives", "2"), "negatives 2 does not fit words 16: with its context word"),
        ("skipgram", ("--words", "10000000", "--width", "51"), "make 1,020,000,000 weights; allowed are 1,000,000,000"),
        ("skipgram", ("--negatives", "0"), "negatives is 0, but should be greater than or equal to 1."),
        ("skipgram", ("--users", "5"), "users 5 belongs to model matrix_factorisation, not to skipgram"),
        ("matrix_factorisation", ("--users", "1"), "users is 1, but should be greater than or equal to 2."),
        ("matrix_factorisation", ("--items", "9999999", "--width", "512"), "allowed are 1,000,000,000"),
        ("matrix_factorisation", ("--nonzeros", "5"), "nonzeros 5 belongs to model sparse_logistic"),
        ("matrix_factorisation", ("--skew", "2"), "skew is 2.0, but should be less than or equal to 1.5."),
        ("matrix_factorisation", ("--driver", "cluster"), "driver cluster does not train matrix_factorisation"),
    ],
)
def test_wrong_factors_are_refused_in_one_sentence(model: str, arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(cli.app, ["train", "--model", model, *arguments])
    assert isinstance(result.exception, BadInput)  # exit code 2
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)
