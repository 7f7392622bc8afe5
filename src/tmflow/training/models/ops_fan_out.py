"""Many small operations that need the same one, so all can run at the same time, and one that needs them all."""

from __future__ import annotations

from tmflow.training.small_operations import fan_out, small_operations

NETWORK = small_operations(fan_out)
