"""The networks of the models: one module per model, with the model's name and a `NETWORK`."""

from __future__ import annotations

import importlib
from functools import cache

from tmflow.training.network import Network


@cache
def load_network(model: str) -> Network:
    """The network of a model of `tmflow.spec.models`."""
    network: Network = importlib.import_module(f"{__name__}.{model}").NETWORK
    return network
