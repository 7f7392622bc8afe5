"""Choosing how the tasks of a cluster call each other.

A transport carries the calls between TensorFlow's servers, and the tensors. TensorFlow finds it by the protocol of a
server, and by the start of a session's target. docs/runtime.md describes it.
"""

from __future__ import annotations

from typing import get_args

from tmflow.base.errors import Unsupported, unknown
from tmflow.native import loader
from tmflow.spec.factors import Transport

GRPC = "grpc"  # TensorFlow's transport, for which no library is needed

TRANSPORTS: tuple[str, ...] = get_args(Transport)

# Transports that are built only where their library is, and how to get it.
OPTIONAL = {"hpx": "HPX: run `make hpx`, then `make build`"}

SECRET = "TMFLOW_CLUSTER_SECRET"
"""The variable of the environment that all tasks of a cluster must have in common, if one has it."""


HPX_ADDRESS = "TMFLOW_HPX_ADDRESS"
"""The variable of the environment with the IP address at which HPX receives, if an executor may start it first."""


def built_transports() -> tuple[str, ...]:
    """The transports that can be used here. Raises BadInput as `protocol` does."""
    text: bytes = loader.runtime().tmflow_runtime_protocols()
    return (GRPC, *text.decode().split(","))


def protocol(name: str) -> str:
    """The `protocol` of a `tf.compat.v1.train.Server` with this transport; loads and registers it first.

    Targets of sessions begin with it: `df://host:port`. Raises BadInput for an unknown transport, or if the library is
    not built or was built for another TensorFlow. Raises Unsupported if it was built without what the transport needs.
    """
    if name not in TRANSPORTS:
        raise unknown("transport", name, TRANSPORTS)
    if name != GRPC and name not in built_transports():
        raise Unsupported(f"transport {name} is not built: it needs {OPTIONAL[name]}.")
    return name
