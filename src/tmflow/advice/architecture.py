"""The identity of a Keras model for its runs: a hash of its configuration, without names and without data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tmflow.base.canonical_json import sha256_of

# What a configuration holds of the data, of names, and of the time at which a model was built.
_LEFT_OUT = ("name", "registered_name", "module", "vocabulary", "idf_weights", "mean", "variance", "input_vocabulary")
_OF_FUNCTIONS = ("code", "defaults", "closure")
_OF_LAYERS = ("keras_history", "input_layers", "output_layers")  # where a configuration names layers


def architecture_sha256(model: Any) -> str:
    """Hex SHA-256 of the configuration of a compiled Keras model.

    Equal models have equal hashes, whatever their layers are called and whatever they have learned. A layer of the
    user's own class that has no configuration counts by its place and its kind only.
    """
    names = {layer.name: number for number, layer in enumerate(model._flatten_layers(include_self=False))}
    return sha256_of(_without_names(_configuration(model), names))


def _configuration(layer: Any) -> dict[str, Any]:
    """The kind of a layer and its configuration; of a model without one, those of its layers."""
    try:
        config = layer.get_config()
    except NotImplementedError:
        config = {}
    if "layers" not in config:
        config |= {"layers": [_configuration(one) for one in getattr(layer, "layers", ())]}
    return {"class_name": type(layer).__name__, "config": config}


def _without_names(value: Any, names: Mapping[str, int], key: str = "") -> Any:
    """The value in JSON types, with the numbers of layers in place of their names."""
    match value:
        case dict():
            kept = {str(name): inner for name, inner in value.items() if name not in (*_LEFT_OUT, *_OF_FUNCTIONS)}
            return {name: _without_names(inner, names, name) for name, inner in kept.items()}
        case list() | tuple():
            return [_without_names(inner, names, key) for inner in value]
        case str() if key in _OF_LAYERS:
            return names.get(value, value)
        case float() if not math.isfinite(value):
            return repr(value)
        case str() | int() | float() | None:
            return value
        case _:
            return type(value).__name__
