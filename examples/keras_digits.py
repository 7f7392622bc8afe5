"""A Keras model of handwritten digits: Keras's own optimizer, a plain lock, no lock, and the advised way.

python examples/keras_digits.py

Each way trains once, and the times leave out its first epoch, in which TensorFlow traces the functions: run it several
times before you believe a difference. The advice needs pip install '.[study]'.
"""

import time
from functools import partial

import keras
import tensorflow as tf
from sklearn.datasets import load_digits

import tmflow
from tmflow import optimizers

EPOCHS, BATCH, WORKERS = 21, 8, 2

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
training, test = (images[:1500], labels[:1500]), (images[1500:], labels[1500:])


def compiled(optimizer):
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((64,)),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"], steps_per_execution=16)
    return model


def report(name, optimizer, fit):
    model, ends = compiled(optimizer), []
    clock = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: ends.append(time.monotonic()))
    fit(model)(*training, batch_size=BATCH, epochs=EPOCHS, callbacks=[clock], verbose=0)
    seconds = ends[-1] - ends[0]
    accuracy = model.evaluate(*test, verbose=0)[1]
    print(f"{name:<42} {seconds:6.2f} s   accuracy {100 * accuracy:.1f} %")


def fit_by_workers(model):
    return partial(tmflow.Workers(WORKERS).fit, model)


batches = tf.data.Dataset.from_tensor_slices(training).batch(BATCH)
advice = tmflow.advise(compiled(keras.optimizers.SGD(0.1)), batches, WORKERS, seconds=15)
report("Keras's SGD, fit", keras.optimizers.SGD(0.1), lambda model: model.fit)
for name, strategy in (
    ("a plain lock", "lock"),
    ("no lock, which may lose updates", "nolock"),
    ("the advised strategy", advice.best.way.strategy),
):
    report(f"{WORKERS} workers, {name}", optimizers.SGD(0.1, strategy=strategy), fit_by_workers)
print(f"advice: {advice.finding}")
