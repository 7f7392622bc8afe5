"""The models that a trial may train: one entry each, with the facts that a spec, a plan and a help text need.

The network of a model, its variables and forward pass, is the file of its name in `tmflow.training.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tmflow.spec.strategies import Value


@dataclass(frozen=True)
class Model:
    """The facts about one model.

    step_us: for each driver that trains the model, a first guess of the microseconds of a step with a loop that is
    compiled well, and of each image of its batch. evaluated_us: of evaluating one image. Both need be right only to the
    order of magnitude: runs replace them.

    factors: the factors that mean something for this model and not for every one, each with the value that
    `tmflow train` takes where none is given. A spec of the model has all of them.
    """

    summary: str
    step_us: Mapping[str, tuple[float, float]]
    evaluated_us: float = 2.0
    factors: Mapping[str, Value | float] = field(default_factory=dict)
    all_pixels: bool = False  # it takes no truncated images
    learning_rate: float = 0.5  # for benchmarks of its steps: the study's, if the model learns at it

    def is_trained_by(self, driver: str) -> bool:
        return driver in self.step_us


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "mnist_deep": Model(
            summary="two convolutions and two dense layers, with dropout",
            step_us={"session": (4000, 650)},
            evaluated_us=200,
            factors={"dropout_keep": 0.5},
            all_pixels=True,
            learning_rate=0.01,  # it learns nothing at the study's
        ),
        "mnist_mlp": Model(
            summary="one hidden layer",
            step_us={"session": (400, 10), "native": (30, 7)},
            factors={"hidden": 128, "activation": "relu"},
        ),
        "mnist_softmax": Model(
            summary="softmax regression",
            step_us={"session": (250, 1.7), "native": (9, 1.3)},
        ),
    }
)

# The factors that belong to models, each once.
MODEL_FACTORS: tuple[str, ...] = tuple(dict.fromkeys(factor for model in MODELS.values() for factor in model.factors))


def factors_of(name: str) -> dict[str, Value | float]:
    """The factors of the model of that name, with the values that they have where none is given."""
    return dict(MODELS[name].factors) if name in MODELS else {}


def models_with(factor: str) -> list[str]:
    """The models that this factor belongs to; none if it is another kind of factor."""
    return [name for name, model in MODELS.items() if factor in model.factors]


def models_of(driver: str) -> list[str]:
    """The models that this driver trains."""
    return [name for name, model in MODELS.items() if model.is_trained_by(driver)]
