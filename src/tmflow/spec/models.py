"""The models that a trial can train: one entry each, with the facts for specs, plans and help texts.

The network of a model (its variables and forward pass) is in the module of its name in `tmflow.training.models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tmflow.spec.strategies import Value

OWN_MODEL = "own_model"  # a user's own, which only `tmflow advise` measures


@dataclass(frozen=True)
class Model:
    """The facts about one model.

    step_us: for each driver that trains the model, a guess of the microseconds of a step with an optimised loop, and of
    the microseconds that each image of its batch adds. evaluated_us: a guess of the microseconds to evaluate one image.
    The order of magnitude is enough, because measured runs replace the guesses.

    layers: those with variables, each with weights and a bias.

    by_rows: a step updates some rows of its only variable, those of the things that the examples of its batch have.

    own_data: what a file of the user has that it can train on, in place of synthetic data; empty if there is none.

    synthetic: it takes synthetic data, a function of the seed, in place of a dataset. smallest_image: the smallest
    `image_size` that leaves something after its last layer. warm_up_steps: before a trial of driver session.

    factors: the factors that apply to this model and not to every model, each with its default in `tmflow train`, None
    without one. A spec of the model has all of them.
    """

    summary: str
    step_us: Mapping[str, tuple[float, float]]
    layers: int
    evaluated_us: float = 2.0
    factors: Mapping[str, Value | float | None] = field(default_factory=dict)
    all_pixels: bool = False  # it cannot use truncated images
    by_rows: bool = False
    own_data: str = ""
    synthetic: bool = False
    smallest_image: int | None = None
    warm_up_steps: int = 20
    learning_rate: float = 0.5  # for benchmarks of its steps: the study's, unless the model learns nothing at it


def _convnet(summary: str, *, layers: int, step_ms: float, smallest_image: int) -> Model:
    """A network of convnet-benchmarks. step_ms: a guess for a training step of one image of 72 pixels."""
    return Model(
        summary=summary,
        step_us={"session": (600 * step_ms, 400 * step_ms)},
        layers=layers,
        evaluated_us=300 * step_ms,
        factors={"image_size": 224, "passes": "both"},
        learning_rate=0.001,
        synthetic=True,
        smallest_image=smallest_image,
        warm_up_steps=4,
    )


def _small_operations(summary: str) -> Model:
    """A graph of small operations, whose result is the gradient of one scalar variable."""
    return Model(
        summary=summary,
        step_us={"session": (1000, 0)},
        layers=0,
        factors={"nodes": 1000},
        learning_rate=0.001,
        synthetic=True,
    )


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "alexnet": _convnet(
            "AlexNet of 2014, five convolutions and three dense layers", layers=8, step_ms=40, smallest_image=64
        ),
        "googlenet": _convnet(
            "GoogLeNet, nine inception modules, without its two auxiliary outputs",
            layers=58,
            step_ms=60,
            smallest_image=32,
        ),
        "matrix_factorisation": Model(
            summary="whether a user likes an item, from a row for each of them: one user and one item in an example",
            step_us={"session": (300, 5), "native": (0.5, 0.3)},
            layers=0,
            factors={"users": 2000, "items": 2000, "width": 16, "skew": 1.0},
            own_data="ratings in a CSV file",
            by_rows=True,
            synthetic=True,
            learning_rate=0.1,
        ),
        "mnist_deep": Model(
            summary="two convolutions and two dense layers, with dropout",
            step_us={"session": (4000, 650), "cluster": (28_000, 650)},
            layers=4,
            evaluated_us=200,
            factors={"dropout_keep": 0.5},
            all_pixels=True,
            learning_rate=0.01,  # it learns nothing at the study's rate
        ),
        "mnist_mlp": Model(
            summary="one hidden layer",
            step_us={"session": (400, 10), "native": (30, 7), "cluster": (3400, 10)},
            layers=2,
            factors={"hidden": 128, "activation": "relu"},
        ),
        "mnist_sigmoid": Model(
            summary="one hidden layer of sigmoid units, from standard normal weights, as in the distributed study",
            step_us={"session": (300, 8), "cluster": (2800, 8)},
            layers=2,
            factors={"hidden": 100},
            learning_rate=0.001,
        ),
        "mnist_softmax": Model(
            summary="softmax regression",
            step_us={"session": (250, 1.7), "native": (9, 1.3), "cluster": (3300, 1.7)},
            layers=1,
        ),
        "ops_chain": _small_operations("small operations, each of which needs the one before"),
        "ops_fan_out": _small_operations("small operations that need the same one, and one that needs them all"),
        "ops_loop": _small_operations("a loop over ten small operations"),
        "overfeat": _convnet(
            "OverFeat, fast model, five convolutions and three dense layers", layers=8, step_ms=130, smallest_image=71
        ),
        OWN_MODEL: Model(
            summary="a model of the user, described by the shapes of its variables",
            step_us={"keras": (1000, 0), "arrays": (1000, 0)},
            layers=0,
            factors={"shapes": None},
        ),
        "skipgram": Model(
            summary="word2vec: which of some words occurs near another one, from rows for both (negative sampling)",
            step_us={"session": (300, 5), "native": (0.5, 0.5)},
            layers=0,
            factors={"words": 5000, "negatives": 5, "width": 16, "skew": 1.0},
            own_data="a text",
            by_rows=True,
            synthetic=True,
            learning_rate=0.1,
        ),
        "sparse_logistic": Model(
            summary="logistic regression on examples that have a few of many features, with updates of their rows",
            step_us={"session": (250, 10), "native": (2, 2)},
            layers=0,
            factors={"features": 10_000, "nonzeros": 16, "width": 10, "skew": 1.0},
            own_data="examples in LIBSVM's format",
            by_rows=True,
            synthetic=True,
        ),
        "vgg16": _convnet(
            "VGG-16, thirteen convolutions and three dense layers", layers=16, step_ms=160, smallest_image=32
        ),
    }
)

# The factors of all models, each once.
MODEL_FACTORS: tuple[str, ...] = tuple(dict.fromkeys(factor for model in MODELS.values() for factor in model.factors))


def trained_models() -> list[str]:
    """The models that commands and config.yaml can train: all but the user's own."""
    return [name for name in MODELS if name != OWN_MODEL]


def factors_of(name: str) -> dict[str, Value | float | None]:
    """The factors of a model with their default values; none for an unknown model."""
    return dict(MODELS[name].factors) if name in MODELS else {}


def models_with(factor: str) -> list[str]:
    """The models that have this factor; none for another kind of factor."""
    return [name for name, model in MODELS.items() if factor in model.factors]


def models_of(driver: str) -> list[str]:
    """The models that this driver trains."""
    return [name for name, model in MODELS.items() if driver in model.step_us]


def models_with_own_data() -> list[str]:
    """The models that can train on a file of the user."""
    return [name for name, model in MODELS.items() if model.own_data]
