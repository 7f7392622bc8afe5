"""The strategies over NumPy arrays, and over tensors that share their memory; without TensorFlow."""

from tmflow.arrays.shared_parameters import SharedParameters

__all__ = ["SharedParameters"]
