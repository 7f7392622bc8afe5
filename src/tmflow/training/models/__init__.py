"""The models: every file of this folder is one, of the file's name, which is its `MODEL`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from tmflow.spec.models import Model
from tmflow.spec.strategies import Value


def _found() -> dict[str, Model]:
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").MODEL for name in names}


# By name, in alphabetical order.
MODELS: Mapping[str, Model] = MappingProxyType(_found())

# The factors that belong to models, each once.
MODEL_FACTORS: tuple[str, ...] = tuple(dict.fromkeys(factor for model in MODELS.values() for factor in model.factors))


def factors_of(name: str) -> dict[str, Value | float]:
    """The factors of the model of that name, with the values that they have where none is given."""
    return dict(MODELS[name].factors) if name in MODELS else {}


def models_with(factor: str) -> list[str]:
    """The models that this factor belongs to; none if it is another kind of factor."""
    return [name for name, model in MODELS.items() if factor in model.factors]
