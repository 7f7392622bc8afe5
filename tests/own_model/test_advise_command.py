"""The command `tmflow advise`: what it prints, and one sentence for wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Tmflow

TRAINING = """
def build():
    import keras, numpy as np, tensorflow as tf
    draw = np.random.default_rng(1)
    images, labels = draw.random((800, 20), np.float32), draw.integers(0, 3, 800)
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model, tf.data.Dataset.from_tensor_slices((images, labels)).batch(4), (images, labels)

def raises():
    raise ValueError("of the user")

def returns():
    return 3

number = 4
"""

FASTER = " is faster than all of them."


@pytest.mark.slow
def test_the_command_measures_a_function_of_a_file(tmflow: Tmflow, tmp_path: Path) -> None:
    pytest.importorskip("keras", reason="Keras comes with TensorFlow")
    (tmp_path / "training.py").write_text(TRAINING)
    done = tmflow("advise", f"{tmp_path / 'training.py'}:build", "--seconds", "25", "--consistency", "tensor")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith(": 63 parameters in 2 variables")
    assert_ends_with_what_won(lines)
    assert "round 3" in done.stderr


def assert_ends_with_what_won(lines: list[str]) -> None:
    """Here that may be another number of workers than two, or Keras's own optimizer; a line above then says so."""
    end = lines.index("To train so:")
    won = [line.removesuffix(FASTER) for line in lines[:end] if line.endswith(FASTER)]
    advised = [line.strip() for line in lines[end + 1 :]]
    if any(line.startswith("Keras's optimizer") for line in won):
        assert advised[-1] == "model.fit(dataset)"
        return
    assert advised[0] == "import tmflow.optimizers"
    workers = re.search(r", (\d+) worker", won[0])[1] if won else "2"
    assert re.fullmatch(rf"tmflow\.Workers\({workers}\)\.fit\(model, dataset, epochs=\.\.\..*\)", advised[-1])


@pytest.mark.slow
def test_the_command_measures_sizes(tmflow: Tmflow) -> None:
    done = tmflow("advise", "--variables", "100x10,10", "--step-us", "20", "--seconds", "10", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ranking"][0]["candidate"]
    assert document["counts"][document["ranking"][0]["strategy"]]["lost"] == 0
    assert not done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "advise needs a model, such as training.py:build, or --variables with --step-us, and not both."),
        (("t.py:build", "--variables", "10", "--step-us", "1"), "and not both."),
        (("--variables", "10"), "--variables and --step-us go together."),
        (("training.py",), "'training.py' names no function; write a file and a function, such as training.py:build."),
        (("absent.py:build",), "absent.py is no file."),
        (("training.py:bild",), "unknown function of training.py, 'bild' (did you mean 'build'?); valid: build, rai"),
        (("training.py:raises",), "raises of training.py raised ValueError; its trace is above."),
        (
            ("training.py:returns",),
            "returns of training.py returned a value of type int, but should return (model, dataset)",
        ),
        (("broken.py:build",), "broken.py raised SyntaxError; its trace is above."),
        (("--variables", "10", "--step-us", "1", "--workers", "0"), "workers is 0"),
    ],
)
def test_wrong_input_is_one_sentence(
    tmflow_here: Tmflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "training.py").write_text(TRAINING)
    (tmp_path / "broken.py").write_text("def build(:\n")
    monkeypatch.chdir(tmp_path)
    done = tmflow_here("advise", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]
    if "raises" in str(arguments):
        assert 'raise ValueError("of the user")' in done.stderr
