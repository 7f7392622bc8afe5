"""Training on a file of the user: what is read, what a run says of it, and what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.training.conftest import SEED, make_spec, strategy_of
from tmflow import cli
from tmflow.base.errors import BadInput
from tmflow.datasets.libsvm_file import read_libsvm
from tmflow.datasets.ratings_file import read_ratings
from tmflow.datasets.text_file import read_text
from tmflow.runner.round import make_variant
from tmflow.spec.models import models_with_own_data
from tmflow.spec.strategies import parameters_of
from tmflow.training import own_data
from tmflow.training.data import without_values
from tmflow.training.own_data import load_own_data
from tmflow.training.synthetic import contexts, ratings

USERS, ITEMS = 30, 20


@pytest.fixture(scope="module")
def ratings_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The synthetic ratings, as MovieLens writes them: users are texts, and items are not numbered from 0."""
    drawn = ratings.draw(3, USERS, ITEMS, 0.5)
    lines = (
        f"u{user},{5 * item},{4.5 if liked else 2.0},964982703"
        for (user, item), liked in zip(drawn.rows[:20_000].tolist(), drawn.labels.tolist(), strict=False)
    )
    path = tmp_path_factory.mktemp("own") / "ratings.csv"
    path.write_text("\n".join(["userId,movieId,rating,timestamp", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of twelve words of one of four topics, with capitals, punctuation, and words that are too rare."""
    rng = np.random.default_rng(4)
    words = [[f"{topic}{letter}e" for letter in "abcdefghij"] for topic in ("pau", "mo", "kil", "tru")]
    sentences = [" ".join(rng.choice(words[topic], 12)).capitalize() + ", once." for topic in rng.integers(0, 4, 1000)]
    path = tmp_path_factory.mktemp("own") / "text.txt"
    path.write_text("Rare. ".join(sentences[:4]) + " ".join(sentences[4:]), encoding="utf-8")
    return path


def test_ratings_are_read(ratings_file: Path) -> None:
    drawn, read = ratings.draw(3, USERS, ITEMS, 0.5), read_ratings(ratings_file)
    assert len(read.users) == 20_000
    np.testing.assert_array_equal(read.liked, drawn.labels[:20_000] == 1)
    for numbers, rows in ((read.users, drawn.rows[:20_000, 0]), (read.items, drawn.rows[:20_000, 1])):
        assert (
            len(set(zip(numbers.tolist(), rows.tolist(), strict=True))) == len(set(rows.tolist())) == numbers.max() + 1
        )


def test_a_text_is_read(text_file: Path) -> None:
    read = read_text(text_file)
    assert len(read.counts) == 41  # and "once", but not "rare"
    assert (np.diff(read.counts) <= 0).all()
    np.testing.assert_array_equal(np.bincount(read.words), read.counts)
    assert len(read.words) == 13_000


@pytest.mark.parametrize("seed", [5, 6])
def test_examples_of_ratings(ratings_file: Path, seed: int) -> None:
    own = load_own_data("matrix_factorisation", ratings_file)
    assert dict(own.sizes) == {"users": USERS, "items": ITEMS}
    assert own.tests == 2000
    spec = make_spec("matrix_factorisation", dataset="own", skew=None, **own.sizes)
    data, other = own.examples(spec, seed), own.examples(spec, seed + 2)
    assert (len(data.train_images), len(data.test_images), data.rows) == (18_000, 2000, USERS + ITEMS)
    np.testing.assert_array_equal(data.test_images, other.test_images)  # whatever the seed
    assert (data.train_images != other.train_images).any()
    read = read_ratings(ratings_file)
    every = np.concatenate([data.train_images, data.test_images])
    liked = np.concatenate([data.train_labels.argmax(axis=1), data.test_digits])
    expected = sorted(zip(read.users, read.items + USERS, read.liked, strict=True))
    assert sorted(zip(*every.T, liked, strict=True)) == expected


def test_examples_of_a_text(text_file: Path) -> None:
    own = load_own_data("skipgram", text_file)
    assert dict(own.sizes) == {"words": 41}
    spec = make_spec("skipgram", dataset="own", skew=None, negatives=3, **own.sizes)
    data, other = own.examples(spec, 5), own.examples(spec, 6)
    assert data.train_images.shape == (own_data.TEXT_EXAMPLES, 5)
    assert data.test_images.shape == (own.tests, 5) == (1300, 5)
    assert data.rows == 82
    np.testing.assert_array_equal(data.test_images, other.test_images)
    assert (data.train_images != other.train_images).any()
    read = read_text(text_file).words
    near = {(a, b) for d in range(1, own_data.WINDOW + 1) for a, b in zip(read[:-d], read[d:], strict=True)}
    near |= {(b, a) for a, b in near}
    labels = data.train_labels.argmax(axis=1)
    words = data.train_images[np.arange(len(labels)), 1 + labels] - 41
    assert set(zip(data.train_images[:, 0].tolist(), words.tolist(), strict=True)) <= near


FEATURES, CLASSES = 40, 3


@pytest.fixture(scope="module")
def features_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Examples of one to six features with values; the label is the class with the largest score of a planted model."""
    rng = np.random.default_rng(6)
    truth = rng.normal(size=(FEATURES, CLASSES))
    lines = []
    for _ in range(6000):
        places = np.sort(rng.choice(FEATURES, rng.integers(1, 7), replace=False))
        values = rng.normal(size=len(places)).round(3)
        label = 10 * int((values @ truth[places]).argmax()) - 10
        lines.append(" ".join([f"{label:+d}", *(f"{p + 1}:{v}" for p, v in zip(places, values, strict=True))]))
    path = tmp_path_factory.mktemp("own") / "examples.libsvm"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_features_are_read(tmp_path: Path) -> None:
    path = tmp_path / "some.libsvm"
    path.write_text("2 1:0.5 4:-1 # here\n\n-1\n2.0 2:3 3:0 4:1e-50\n" + "7 3:1e-3\n" * 100)
    read = read_libsvm(path)
    assert (read.number, read.labels) == (4, [-1, 2, 7])
    assert read.classes[:4].tolist() == [1, 0, 1, 2]
    assert read.features[:4].tolist() == [[0, 3], [0, 0], [1, 1], [2, 2]]
    np.testing.assert_array_equal(read.values[:4], np.array([[0.5, -1], [0, 0], [3, 0], [1e-3, 0]], np.float32))


def test_examples_of_features(features_file: Path) -> None:
    own = load_own_data("sparse_logistic", features_file)
    assert dict(own.sizes) == {"features": FEATURES, "nonzeros": 6, "width": CLASSES}
    assert own.tests == 600
    spec = make_spec("sparse_logistic", dataset="own", skew=None, **own.sizes)
    data, other = own.examples(spec, 5), own.examples(spec, 6)
    assert (data.train_images.shape, data.test_images.shape) == ((5400, 12), (600, 12))
    np.testing.assert_array_equal(data.test_images, other.test_images)
    assert (data.train_images != other.train_images).any()
    read = read_libsvm(features_file)
    numbers, values = without_values(np.concatenate([data.train_images, data.test_images]))
    classes = np.concatenate([data.train_labels.argmax(axis=1), data.test_digits])
    found, expected = (
        sorted((*example[0].tolist(), *example[1].tolist(), int(example[2])) for example in zip(*parts, strict=True))
        for parts in ((numbers, values, classes), (read.features, read.values, read.classes))
    )
    assert found == expected


@pytest.mark.parametrize("strategy", ["lock", "striped", "nolock", "block_stm", "combining", "atomic"])
def test_both_drivers_learn_the_same_from_features_with_values(features_file: Path, strategy: str) -> None:
    """The session's rows are padded with values of 0, and the native driver leaves these out."""
    own = load_own_data("sparse_logistic", features_file)
    given = {"dataset": "own", "skew": None, **own.sizes, "strategy": strategy, "batch": 4, "iterations": 300}
    given |= {"learning_rate": 0.3, "test_images": own.tests, **parameters_of(strategy)}
    accuracies = []
    for driver in ("native", "session"):
        spec = make_spec("sparse_logistic", **given, driver=driver)
        variant = make_variant(spec, strategy_of(spec), 1, SEED)
        try:
            accuracies.append(variant.run(spec, SEED, own.examples(spec, SEED)).final_accuracy)
        finally:
            variant.close()
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.004)
    assert accuracies[0] > 0.7  # chance is a third


def run_train(model: str, path: Path, *arguments: str) -> list[dict[str, Any]]:
    given = [
        "train",
        "--driver",
        "native",
        "--model",
        model,
        "--data",
        str(path),
        "--batch",
        "20",
        "--json",
        *arguments,
    ]
    result = CliRunner().invoke(cli.app, given)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def test_a_model_learns_the_users_file(ratings_file: Path, text_file: Path, features_file: Path) -> None:
    by_ratings = run_train("matrix_factorisation", ratings_file, "--lr", "1", "--iterations", "20000", "--rounds", "2")
    (of_text,) = run_train("skipgram", text_file, "--lr", "1", "--iterations", "10000", "--negatives", "4")
    (session,) = run_train("matrix_factorisation", ratings_file, "--iterations", "50", "--driver", "session")
    (of_features,) = run_train("sparse_logistic", features_file, "--iterations", "20000", "--threads", "2")
    assert of_features["final_accuracy"] > 0.9
    assert min(run["final_accuracy"] for run in by_ratings) > 0.7  # about 0.5 of the ratings are likes
    assert of_text["final_accuracy"] > 0.4  # chance is 0.2, and words near the end of a sentence are near other topics
    assert {run["dataset"] for run in (*by_ratings, of_text, session)} == {"own"}
    content = hashlib.sha256(ratings_file.read_bytes()).hexdigest()
    expected = hashlib.sha256(f"OwnRatings 1 {content}".encode()).hexdigest()
    assert load_own_data("matrix_factorisation", ratings_file).sha256 == expected


HEADER = "userId,movieId,rating\n"
LINES = "+1 1:0.5 3:1 # a comment\n-1 2:-2e-1\n" * 75
GOOD = [f"{i % 9},{i % 7},{i % 5}" for i in range(200)]
FILES: list[tuple[str, str, str]] = [
    ("matrix_factorisation", "", "cannot be read as a CSV file"),
    ("matrix_factorisation", "userId,stars\n1,2\n", "there is no column for the item; it should be called movieId or"),
    ("matrix_factorisation", HEADER + "1,2,3\n", "has 1 ratings, but should have at least 100."),
    (
        "matrix_factorisation", HEADER + "\n".join([*GOOD[:150], "1,2,good", *GOOD]),
        "line 152: rating is 'good', but should be a number.",
    ),
    ("matrix_factorisation", HEADER + "\n".join([*GOOD[:7], "1,,3", *GOOD]), "line 9: it has no item (movieId)."),
    ("matrix_factorisation", HEADER + "\n".join([*GOOD[:7], "", *GOOD]), "line 9: it has no user (userId)."),
    ("matrix_factorisation", HEADER + "\n".join([*GOOD[:7], "1,2,3,4,5", *GOOD]), "line 9"),
    ("matrix_factorisation", HEADER + "\n".join(["1,2,nan", *GOOD]), "line 2: it has no rating (rating)."),
    ("matrix_factorisation", HEADER + "\n".join(["1,2,inf", *GOOD]), "line 2: rating is 'inf', but should be"),
    ("matrix_factorisation", HEADER + "\n".join(f"1,{i},3" for i in range(200)), "has only one user"),
    ("skipgram", "one two three " * 400, "has 3 words that occur 5 times or more, 1200 times in all, but should"),
    ("skipgram", "\udcff", "cannot be read as a text in UTF-8"),
    ("sparse_logistic", "", "has 0 examples, but should have at least 100."),
    ("sparse_logistic", LINES + "+1 3:0.5 2:1\n", "line 151: index 2 is not allowed: indices must ascend from 1, up"),
    ("sparse_logistic", LINES + "\n# more\n1 0:1\n", "line 153: index 0 is not allowed: indices must ascend from 1"),
    ("sparse_logistic", LINES + "1 3:x\n", "line 151: the value of feature 3 is 'x', but should be a finite"),
    ("sparse_logistic", LINES + "1 3:nan\n", "line 151: the value of feature 3 is 'nan', but should be a finite"),
    ("sparse_logistic", LINES + "1 3:1e39\n", "line 151: the value of feature 3 is '1e39', but should be a finite"),
    ("sparse_logistic", LINES + "1 3:1_0\n", "line 151: the value of feature 3 is '1_0', but should be a finite"),
    ("sparse_logistic", LINES + "1 3\n", "line 151: '3' should be index:value, such as 3:0.5."),
    ("sparse_logistic", LINES + "1 qid:4 3:1\n", "line 151: 'qid:4' should be index:value"),
    ("sparse_logistic", LINES + "good 3:1\n", "line 151: label is 'good', but should be a finite number in float32."),
    ("sparse_logistic", LINES + "1" + " ".join(f" {i}:1" for i in range(1, 1026)), "line 151: it has 1025 features"),
    ("sparse_logistic", "1 3:1\n" * 150, "has 1 label, but should have 2 to 512: one for each class."),
    ("sparse_logistic", "1\n-1\n" * 75, "has no features: no line has an index:value after its label."),
    ("sparse_logistic", "\udcff", "cannot be read as a text"),
    ("mnist_softmax", "", "takes no file of yours; matrix_factorisation, skipgram and sparse_logistic do."),
]  # fmt: skip


def refusal(model: str, path: Path, *arguments: str) -> str:
    result = CliRunner().invoke(cli.app, ["train", "--model", model, "--data", str(path), *arguments])
    assert isinstance(result.exception, BadInput)  # exit code 2
    assert "\n" not in str(result.exception)
    return str(result.exception)


@pytest.mark.parametrize(("model", "content", "says"), FILES)
@pytest.mark.filterwarnings("error")  # a warning would stand before the sentence
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, model: str, content: str, says: str) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert says in refusal(model, path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--users", "5"], "users follows from"),
        (["--skew", "1"], "skew follows from"),
        (["--test-images", "0"], "test_images is 0, but should be"),
    ],
)
def test_what_follows_from_the_file_cannot_be_given(ratings_file: Path, arguments: Sequence[str], says: str) -> None:
    assert says in refusal("matrix_factorisation", ratings_file, *arguments)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal("skipgram", tmp_path / "none.txt") == f"{tmp_path / 'none.txt'} is not a file."


def test_a_spec_of_own_data_has_no_skew() -> None:
    assert models_with_own_data() == ["matrix_factorisation", "skipgram", "sparse_logistic"]
    with pytest.raises(ValueError, match=r"skew 1\.0 belongs to dataset synthetic"):
        make_spec("skipgram", dataset="own")
    with pytest.raises(ValueError, match="dataset own does not fit mnist_softmax, which allows mnist and digits"):
        make_spec("mnist_softmax", dataset="own")
    with pytest.raises(ValueError, match="skew is not given, and model skipgram needs it"):
        make_spec("skipgram", skew=None)


def test_negatives_of_a_text_are_as_frequent_as_in_synthetic_text() -> None:
    assert own_data.POWER == contexts.POWER
