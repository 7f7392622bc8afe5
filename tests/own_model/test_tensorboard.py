"""The counters of an optimizer are scalars of TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="Keras comes with TensorFlow")
import tensorflow as tf  # noqa: E402

import tmflow  # noqa: E402
from tmflow import optimizers  # noqa: E402
from tmflow.base.errors import BadInput  # noqa: E402
from tmflow.parallel.tensorboard import CounterBoard  # noqa: E402

pytestmark = pytest.mark.slow


def compiled(optimizer: Any) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(2)
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(3, activation="softmax")])
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model, draw.random((64, 20), np.float32), draw.integers(0, 3, 64)


def scalars(folder: Path) -> dict[str, list[float]]:
    """The values of each tag, in the order of the steps."""
    found: dict[str, list[float]] = {}
    for path in folder.glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(value.simple_value)
    return found


@pytest.mark.parametrize("measures", ["usual", "full"])
def test_the_sums_of_the_counters_are_written_after_each_epoch(tmp_path: Path, measures: Any) -> None:
    model, images, labels = compiled(optimizers.SGD(0.1, strategy="striped", measures=measures))
    board = CounterBoard(tmp_path)
    tmflow.Workers(2).fit(model, images, labels, batch_size=4, epochs=3, verbose=0, callbacks=[board])
    found = scalars(tmp_path)
    assert found["tmflow/updates of variables"] == [32, 64, 96]  # 16 steps, two variables
    if measures == "full":
        assert found["tmflow/share of updates lost"] == [0, 0, 0]
        assert found["tmflow/seconds of holding locks"][-1] > 0
    else:
        assert not any("lost" in tag or "seconds" in tag for tag in found)


def test_an_optimizer_without_counters_is_named(tmp_path: Path) -> None:
    model, images, labels = compiled("sgd")
    with pytest.raises(BadInput, match="the optimizer is SGD, which has no counters"):
        model.fit(images, labels, verbose=0, callbacks=[CounterBoard(tmp_path)])


def test_commits_and_fallbacks_of_transactions_are_written(tmp_path: Path) -> None:
    model, images, labels = compiled(optimizers.SGD(0.1, strategy="htm:provider=emulated:profile=intel-tsx-study"))
    tmflow.Workers(2).fit(model, images, labels, batch_size=4, verbose=0, callbacks=[CounterBoard(tmp_path)])
    found = scalars(tmp_path)
    assert found["tmflow/commits"][0] + found["tmflow/updates under a lock instead of a transaction"][0] == 32
    assert found["tmflow/attempts of transactions"][0] >= found["tmflow/commits"][0]
