"""Keras's optimizers, with updates under a strategy, for several threads that train one model."""

from tmflow.base.extras import requires_extra

with requires_extra("tmflow.optimizers"):
    from tmflow.optimizers.rules import SGD, Adagrad, Adam

__all__ = ["SGD", "Adagrad", "Adam"]
