"""Each model has one entry of facts and one file of the same name with its network."""

from __future__ import annotations

import pkgutil
from typing import Any

import pytest

from tmflow.spec.models import MODELS, models_of, trained_models
from tmflow.spec.trial import TrialSpec
from tmflow.training import models
from tmflow.training.models import load_network


def test_entries_and_files_have_the_same_names() -> None:
    assert sorted(module.name for module in pkgutil.iter_modules(models.__path__)) == sorted(MODELS)


@pytest.mark.parametrize("name", trained_models())
def test_an_entry_has_the_number_of_layers_of_its_network(name: str) -> None:
    network = load_network(name)
    spec: Any = TrialSpec.model_construct(model=name, matrix=784, **MODELS[name].factors)
    assert MODELS[name].layers == len(network.variables(spec)) // 2  # a layer has weights and a bias
    assert len(network.layers) == (0 if network.forward else MODELS[name].layers)


@pytest.mark.parametrize("name", MODELS)
def test_a_network_has_scores_where_the_native_driver_trains_it(name: str) -> None:
    assert (load_network(name).scores is not None) == (name in models_of("native"))
