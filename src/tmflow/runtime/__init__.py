"""Executors and transports, as a plugin of the installed TensorFlow.

An executor decides which threads run the nodes of a graph, and a transport how the tasks of a cluster call each other.
"""

from tmflow.runtime.executors import TENSORFLOW, Counts, built, counts, executor, executor_type, names, session_config
from tmflow.runtime.transports import GRPC, HPX_ADDRESS, SECRET, TRANSPORTS, built_transports, protocol

__all__ = [
    "GRPC",
    "HPX_ADDRESS",
    "SECRET",
    "TENSORFLOW",
    "TRANSPORTS",
    "Counts",
    "built",
    "built_transports",
    "counts",
    "executor",
    "executor_type",
    "names",
    "protocol",
    "session_config",
]
