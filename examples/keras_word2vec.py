"""Word vectors of a text file: Keras's own optimizer, a plain lock, no lock, and the advised way.

python examples/keras_word2vec.py [TEXT.txt]

Without a file it takes the documentation of this project. A model learns which words stand near each other; its
accuracy is that of telling a word's true neighbour from a word drawn at random.

Each way trains once, and the times leave out its first epoch, in which TensorFlow traces the functions: run it several
times before you believe a difference. The advice needs pip install '.[study]'.
"""

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tmflow
from tmflow import optimizers
from tmflow.datasets.text_file import read_text

WIDTH, WINDOW, BATCH, EPOCHS, WORKERS = 32, 4, 64, 4, 2
FREQUENT = 50  # so many of the most frequent words are left out: they stand near any other

with tempfile.TemporaryDirectory() as folder:
    pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    path = Path(folder) / "documentation.txt"
    path.write_text("\n".join(page.read_text() for page in pages))
    text = read_text(Path(sys.argv[1]) if len(sys.argv) > 1 else path)  # without words that occur fewer than five times
numbers, words = text.words[text.words >= FREQUENT], len(text.counts)

draw = np.random.default_rng(1)


def examples_of(numbers):
    """Pairs of near words, and for each a pair with a word of the text that is drawn at random; in random order."""
    near = [(numbers[:-distance], numbers[distance:]) for distance in range(1, WINDOW + 1)]
    centres, contexts = (np.concatenate(side) for side in zip(*near, strict=True))
    others = draw.choice(numbers, len(centres))
    pairs = np.concatenate([np.stack([centres, contexts]), np.stack([centres, others])], axis=1)
    labels = np.repeat(np.float32([1, 0]), len(centres))
    order = draw.permutation(len(labels))[:250_000]
    return tf.data.Dataset.from_tensor_slices(((pairs[0][order], pairs[1][order]), labels[order]))


rest = len(numbers) // 10  # the end of the text, for the test
training, test = (
    examples_of(numbers[:-rest]).batch(BATCH, drop_remainder=True),
    examples_of(numbers[-rest:]).batch(1000),
)


def compiled(optimizer):
    keras.utils.set_random_seed(1)
    inputs = [keras.Input((), dtype="int64", name=name) for name in ("centre", "context")]
    vectors = [keras.layers.Embedding(words, WIDTH)(one) for one in inputs]
    model = keras.Model(inputs, keras.layers.Dot(axes=1)(vectors))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=[keras.metrics.BinaryAccuracy(threshold=0)], steps_per_execution=16)
    return model


def report(name, model, fit):
    ends = []
    clock = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: ends.append(time.monotonic()))
    fit(training, epochs=EPOCHS, callbacks=[clock], verbose=0, shuffle=False)
    seconds = ends[-1] - ends[0]
    print(f"{name:<42} {seconds:6.2f} s   accuracy {100 * model.evaluate(test, verbose=0)[1]:.1f} %", flush=True)


model = compiled(keras.optimizers.Adam(0.003))
advice = tmflow.advise(model, training, WORKERS, seconds=20)
report("Keras's Adam, fit", model, model.fit)
for name, strategy in (
    ("a plain lock", "lock"),
    ("no lock, which may lose updates", "nolock"),
    ("the advised strategy", advice.best.way.strategy),
):
    model = compiled(optimizers.Adam(0.003, strategy=strategy))
    report(f"{WORKERS} workers, {name}", model, partial(tmflow.Workers(WORKERS).fit, model))
print(f"advice: {advice.finding}")
