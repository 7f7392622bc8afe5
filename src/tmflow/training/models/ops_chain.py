"""A chain of small operations: each needs the one before, so no two can run at the same time."""

from __future__ import annotations

from tmflow.training.small_operations import chain, small_operations

NETWORK = small_operations(chain)
