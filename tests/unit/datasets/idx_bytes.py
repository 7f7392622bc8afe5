"""Writing the IDX format, for the tests of its readers."""

from __future__ import annotations

import struct

import numpy as np


def encoded(array: np.ndarray) -> bytes:
    """The IDX file of an array of bytes."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
