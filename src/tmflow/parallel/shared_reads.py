"""Reads of the memory of a variable, in place of TensorFlow's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tensorflow.python.eager import record
from tensorflow.python.ops.resource_variable_ops import variable_accessed

from tmflow.native import loader


@contextmanager
def shared_reads(variables: Sequence[Any]) -> Iterator[None]:
    """While the context lasts, a read of one of these `tf.Variable`s is a view of its memory.

    TensorFlow's read is a value, which never changes: an update that finds it in use copies the variable first. If
    other workers read all the time, every update would copy. A view changes with every later update, as a tensor of
    PyTorch does, so the forward and the backward pass of a step may see different values. Functions that are traced
    meanwhile keep their views.
    """
    with replaced_reads(variables, _view):
        yield


@contextmanager
def replaced_reads(variables: Sequence[Any], read: Callable[[Any], Any]) -> Iterator[None]:
    """While the context lasts, a read of one of these `tf.Variable`s is what `read` returns for it, on the tape."""
    for variable in variables:
        variable._read_variable_op = partial(_on_tape, variable, read)
    try:
        yield
    finally:
        for variable in variables:
            del variable._read_variable_op  # that of the class is TensorFlow's


def _view(variable: Any) -> Any:
    """The memory of the variable."""
    return loader.ops().tmflow_resource_view(variable.handle, T=variable.dtype)


def _on_tape(variable: Any, read: Callable[[Any], Any], no_copy: bool = False) -> Any:
    """What `read` returns for the variable, as a read of it for `tf.GradientTape`."""
    del no_copy  # of a value
    variable_accessed(variable)
    with record.stop_recording():
        value = read(variable)
    record.record_operation(
        "TmflowRead", [value], [variable.handle], backward_function=_as_it_is, forward_function=_as_it_is
    )
    return value


def _as_it_is(gradient: Any) -> list[Any]:
    return [gradient]
