"""The identity of a Keras model for its runs: a hash of configurations, without names and without data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tmflow.base.canonical_json import sha256_of

_NAMES = frozenset({"name", "registered_name", "module"})
# What configurations of these classes hold besides: data, code, and a rate that is a factor of its own.
_LEFT_OUT = {
    "Normalization": ("mean", "variance"),
    "Discretization": ("bin_boundaries",),
    **dict.fromkeys(("IntegerLookup", "StringLookup", "TextVectorization"), ("vocabulary", "idf_weights")),
    "__lambda__": ("code", "defaults", "closure", "value"),
    **dict.fromkeys(("SGD", "Adagrad", "Adam"), ("learning_rate",)),
}
_OF_LAYERS = ("keras_history", "input_layers", "output_layers")  # where a configuration names layers


def architecture_sha256(model: Any, optimizer: Mapping[str, Any]) -> str:
    """Hex SHA-256 of the configurations of a Keras model and of the optimizer that trains it.

    optimizer: its `class_name` and `config`; the learning rate does not count. Equal models have equal hashes, whatever
    their layers are called and whatever they have learned. A layer of the user's own class that has no configuration
    counts by its place and its kind only, a lambda by its presence only, and any other function by its name.
    """
    names = {layer.name: number for number, layer in enumerate(model._flatten_layers(include_self=False))}
    return sha256_of(_without_names({"model": _configuration(model), "optimizer": optimizer}, names))


def _configuration(layer: Any) -> dict[str, Any]:
    """The kind of a layer and its configuration; of a model without one, those of its layers."""
    try:
        config = layer.get_config()
    except NotImplementedError:
        config = {}
    if "layers" not in config:
        config |= {"layers": [_configuration(one) for one in getattr(layer, "layers", ())]}
    return {"class_name": type(layer).__name__, "config": config}


def _without_names(value: Any, names: Mapping[str, int], key: str = "", class_name: str = "") -> Any:
    """The value in JSON types, with the numbers of layers in place of their names.

    key: of the value in its configuration, which is one of this class.
    """
    match value:
        case dict():
            left_out, inside = _left_out(class_name), str(value.get("class_name", ""))
            kept = {str(name): inner for name, inner in value.items() if name not in left_out}
            return {name: _without_names(inner, names, name, inside) for name, inner in kept.items()}
        case list() | tuple():
            return [_without_names(inner, names, key, class_name) for inner in value]
        case str() if key in _OF_LAYERS:
            return names.get(value, value)
        case float() if not math.isfinite(value):
            return repr(value)
        case str() | int() | float() | None:
            return value
        case _:
            return type(value).__name__


def _left_out(class_name: str) -> frozenset[str]:
    """What does not count of a configuration of this class. The name of a policy is its type, such as "float64"."""
    names = _NAMES - {"name"} if class_name.endswith("DTypePolicy") else _NAMES
    return names.union(_LEFT_OUT.get(class_name, ()))
