"""Choosing an executor for functions and sessions, and what executors have done.

An executor runs a graph: it decides when each node runs, and on which thread. TensorFlow has a registry of executors,
so one from a library is chosen by its name. docs/runtime.md describes how a step runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, get_args

from tmflow.base.errors import Unsupported, unknown
from tmflow.native import loader
from tmflow.spec.factors import Executor

TENSORFLOW = "tensorflow"  # TensorFlow's executor, for which no library is needed

# The executors of the library, by their schedulers: native_ops/runtime/schedulers/ has one file for each.
SCHEDULERS: tuple[str, ...] = tuple(name for name in get_args(Executor) if name != TENSORFLOW)


# Schedulers that are built only where their library is, and how to get it.
OPTIONAL = {
    "tbb": "oneTBB (Debian: `apt install libtbb-dev`)",
    "hpx": "HPX (`make hpx`)",
    "hpx_dataflow": "HPX (`make hpx`)",
}


class Counts(NamedTuple):
    """What the executors of one scheduler have done in this process."""

    executors: int  # one for each graph, or part of a graph
    steps: int  # runs of these
    nodes: int  # nodes that were run
    tasks: int  # tasks that were given to the scheduler


def names() -> tuple[str, ...]:
    """The valid names of executors."""
    return (TENSORFLOW, *SCHEDULERS)


def built() -> tuple[str, ...]:
    """The schedulers of the library. Raises BadInput if it is not built or was built for another TensorFlow."""
    text: bytes = loader.runtime().tmflow_runtime_schedulers()
    return tuple(text.decode().split(","))


def executor_type(name: str) -> str:
    """The name under which TensorFlow finds an executor; loads and registers it first.

    Raises BadInput for an unknown executor, or if the library is not built or was built for another TensorFlow.
    Raises Unsupported if it was built without what the executor needs.
    """
    if name not in names():
        raise unknown("executor", name, names())
    if name == TENSORFLOW:
        return ""
    if name not in built():
        raise Unsupported(f"executor {name} is not built: it needs {OPTIONAL[name]}, then run `make build`.")
    return f"TMFLOW_{name.upper()}"


@contextmanager
def executor(name: str) -> Iterator[None]:
    """Within this context, TensorFlow functions that this thread calls run under the executor, as does Keras `fit`.

    Eager operations outside of functions have no executor, and sessions have `session_config`.
    """
    chosen = executor_type(name)
    import tensorflow as tf

    with tf.experimental.function_executor_type(chosen):
        yield


def session_config(name: str, config: Any = None) -> Any:
    """A copy of `config`, a tf.compat.v1.ConfigProto, for a session that runs under the executor."""
    chosen = executor_type(name)
    import tensorflow as tf

    copy = tf.compat.v1.ConfigProto()
    if config is not None:
        copy.CopyFrom(config)
    copy.experimental.executor_type = chosen
    return copy


def counts(name: str) -> Counts:
    """What the executors with this scheduler have done in this process. Raises BadInput as `executor_type` does."""
    if name not in SCHEDULERS:
        raise unknown("executor", name, SCHEDULERS)
    values = (ctypes.c_int64 * len(Counts._fields))()
    loader.runtime().tmflow_runtime_counts(name.encode(), values)
    return Counts(*values)
