"""Synthetic examples of features: how often each feature is drawn, and labels that follow from the truth."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.training.conftest import make_spec
from tmflow import cli
from tmflow.base.errors import BadInput
from tmflow.training.synthetic import features

N = features.TRAIN + features.TEST


@pytest.mark.parametrize(("number", "nonzeros", "skew"), [(8, 1, 0.0), (64, 8, 1.5), (1000, 16, 1.0)])
def test_an_example_has_each_of_its_features_once(number: int, nonzeros: int, skew: float) -> None:
    drawn = features.draw(3, number, nonzeros, 2, skew)
    assert drawn.features.shape == (N, nonzeros)
    assert drawn.features.dtype == np.int32
    assert (drawn.features.min(), drawn.features.max()) == (0, number - 1)
    assert all(len(set(row)) == nonzeros for row in drawn.features.tolist())


def test_frequencies_follow_zipfs_law() -> None:
    """With one feature for each example none is drawn again, so the frequencies are those of the law."""
    for skew in (0.0, 0.5, 1.0, 1.5):
        drawn = features.draw(4, 50, 1, 2, skew)
        found = np.sort(np.bincount(drawn.features.ravel(), minlength=50))[::-1] / N
        law = np.arange(1, 51) ** -skew
        law /= law.sum()
        assert (abs(found - law) < 5 * np.sqrt(law * (1 - law) / N)).all()


def test_frequent_features_are_not_neighbours() -> None:
    drawn = features.draw(4, 1000, 8, 2, 1.0)
    frequent = np.argsort(np.bincount(drawn.features.ravel(), minlength=1000))[-10:]
    assert np.ptp(frequent) > 200


def test_labels_are_drawn_from_the_softmax_of_the_scores() -> None:
    drawn = features.draw(5, 500, 16, 4, 0.0)
    assert drawn.scores.std() == pytest.approx(features.SCALE, rel=0.1)
    odds = np.exp(drawn.scores - drawn.scores.max(axis=1, keepdims=True))
    probability = odds / odds.sum(axis=1, keepdims=True)
    for likely in (0.2, 0.5, 0.8):
        near = abs(probability[:, 0] - likely) < 0.05
        share = (drawn.labels[near] == 0).mean()
        assert share == pytest.approx(probability[near, 0].mean(), abs=4 * np.sqrt(0.25 / near.sum()))


def test_they_are_a_function_of_the_seed() -> None:
    one = features.draw(5, 500, 16, 4, 1.0)
    for again, other in zip(one, features.draw(5, 500, 16, 4, 1.0), strict=True):
        np.testing.assert_array_equal(again, other)
    assert (features.draw(6, 500, 16, 4, 1.0).features != one.features).any()
    spec = make_spec("sparse_logistic", features=500, nonzeros=16, width=4, skew=1.0)
    data = features.of_spec(spec, 5)
    np.testing.assert_array_equal(np.concatenate([data.train_images, data.test_images]), one.features)
    np.testing.assert_array_equal(data.train_labels.argmax(axis=1), one.labels[: features.TRAIN])
    assert data.train_labels.shape == (features.TRAIN, 4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--features", "20", "--nonzeros", "3"),
            "nonzeros 3 does not fit features 20: an example has at most",
        ),
        (("--features", "10000000", "--width", "101"), "make 1,010,000,000 weights; allowed are 1,000,000,000"),
        (("--skew", "-0.1"), "skew is -0.1, but should be greater than or equal to 0."),
        (("--width", "0"), "width is 0, but should be greater than or equal to 2."),
        (("--nonzeros", "0"), "nonzeros is 0, but should be greater than or equal to 1."),
        (("--driver", "cluster"), "driver cluster does not train sparse_logistic"),
        (("--matrix", "100"), "matrix 100 belongs to MNIST and digits"),
    ],
)
def test_wrong_factors_are_refused_in_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(cli.app, ["train", "--model", "sparse_logistic", *arguments])
    assert isinstance(result.exception, BadInput)  # exit code 2
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)
