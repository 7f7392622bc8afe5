"""A recommender with two embedding tables and Adam: Keras's own optimizer, a plain lock, no lock, and the advised way.

python examples/keras_recommender.py

Each way trains once, and the times leave out its first epoch, in which TensorFlow traces the functions: run it several
times before you believe a difference. The advice needs pip install '.[study]'.
"""

import time
from functools import partial

import keras
import numpy as np
import tensorflow as tf

import tmflow
from tmflow import optimizers

USERS, ITEMS, WIDTH, BATCH, EPOCHS, WORKERS = 2_000, 1_000, 8, 64, 4, 2

# Who likes what: users and items have tastes, and the sign of their product is the truth.
draw = np.random.default_rng(1)
tastes = [draw.normal(size=(rows, WIDTH)) for rows in (USERS, ITEMS)]
users, items = draw.integers(0, USERS, 220_000), draw.integers(0, ITEMS, 220_000)
likes = (np.sum(tastes[0][users] * tastes[1][items], axis=1) > 0).astype("float32")
pairs = tf.data.Dataset.from_tensor_slices(((users, items), likes))
training, test = pairs.take(200_000).batch(BATCH, drop_remainder=True), pairs.skip(200_000).batch(1000)


def compiled(optimizer):
    keras.utils.set_random_seed(1)
    inputs = [keras.Input((), dtype="int64", name=name) for name in ("user", "item")]
    tables = [keras.layers.Embedding(rows, WIDTH) for rows in (USERS, ITEMS)]
    score = keras.layers.Dot(axes=1)([table(one) for table, one in zip(tables, inputs, strict=True)])
    model = keras.Model(inputs, score)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=[keras.metrics.BinaryAccuracy(threshold=0)], steps_per_execution=16)
    return model


def report(name, model, fit):
    ends = []
    clock = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: ends.append(time.monotonic()))
    fit(training, epochs=EPOCHS, callbacks=[clock], verbose=0, shuffle=False)
    seconds = ends[-1] - ends[0]
    print(f"{name:<42} {seconds:6.2f} s   accuracy {100 * model.evaluate(test, verbose=0)[1]:.1f} %", flush=True)


model = compiled(keras.optimizers.Adam(0.005))
advice = tmflow.advise(model, training, WORKERS, seconds=20)
report("Keras's Adam, fit", model, model.fit)
for name, strategy in (
    ("a plain lock", "lock"),
    ("no lock, which may lose updates", "nolock"),
    ("the advised strategy", advice.best.way.strategy),
):
    model = compiled(optimizers.Adam(0.005, strategy=strategy))
    report(f"{WORKERS} workers, {name}", model, partial(tmflow.Workers(WORKERS).fit, model))
print(f"advice: {advice.finding}")
