"""A loop of TensorFlow 1: a few small operations that run many times."""

from __future__ import annotations

from tmflow.training.small_operations import loop, small_operations

NETWORK = small_operations(loop)
