"""Choosing how the tasks of a cluster call each other.

A transport carries the calls between TensorFlow's servers, and the tensors. TensorFlow finds it by the protocol of a
server, and by the start of a session's target. docs/runtime.md describes it.
"""

from __future__ import annotations

from typing import get_args

from tmflow.base.errors import unknown
from tmflow.native import loader
from tmflow.spec.factors import Transport

GRPC = "grpc"  # TensorFlow's transport, for which no library is needed

TRANSPORTS: tuple[str, ...] = get_args(Transport)

SECRET = "TMFLOW_CLUSTER_SECRET"
"""The variable of the environment that all tasks of a cluster must have in common, if one has it."""


def protocol(name: str) -> str:
    """The `protocol` of a `tf.compat.v1.train.Server` with this transport; loads and registers it first.

    Targets of sessions begin with it: `df://host:port`. Raises BadInput for an unknown transport, or if the library is
    not built or was built for another TensorFlow.
    """
    if name not in TRANSPORTS:
        raise unknown("transport", name, TRANSPORTS)
    if name != GRPC:
        loader.runtime()
    return name
