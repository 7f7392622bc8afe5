"""The networks of convnet-benchmarks have the sizes of their papers, and images must be large enough for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tmflow import cli
from tmflow.base.errors import BadInput
from tmflow.spec.factors import SYNTHETIC
from tmflow.spec.models import MODELS
from tmflow.spec.trial import TrialSpec
from tmflow.study.grid import make_spec
from tmflow.training.convnets import CHANNELS, CLASSES
from tmflow.training.models import load_network
from tmflow.training.network import Variable, scaled_normal
from tmflow.training.synthetic import images

CONVNETS = [name for name, model in MODELS.items() if "image_size" in model.factors]


def spec_of(model: str, **factors: Any) -> TrialSpec:
    usual = {"strategy": "tf_lock", "threads": 1, "batch": 1, "iterations": 1, "learning_rate": 0.001}
    return make_spec({"model": model, "dataset": "mnist", **usual, **MODELS[model].factors, **factors}, "a test")


def variables_at(model: str, image_size: int) -> list[Variable]:
    return load_network(model).variables(TrialSpec.model_construct(model=model, image_size=image_size))


def conv(size: int, inputs: int, channels: int) -> int:
    return size * size * inputs * channels + channels


def dense(inputs: int, units: int) -> int:
    return inputs * units + units


def inception(inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> int:
    reduced = sum(conv(1, inputs, channels) for channels in (one, three[0], five[0], pool))
    return reduced + conv(3, *three) + conv(5, *five)


# By hand from the tables of the papers, at the original size of the images, and the sum that others publish too:
# AlexNet of 2014 61.1 million (torchvision), GoogLeNet 7.0 (the Caffe model without auxiliary outputs), OverFeat 145.9
# ("145 million" in its paper), VGG-16 138.4 ("138 million" in its paper).
SIZES = {
    "alexnet": (
        224,
        61_100_840,
        [conv(11, 3, 64), conv(5, 64, 192), conv(3, 192, 384), conv(3, 384, 256), conv(3, 256, 256)],
        [dense(256 * 6 * 6, 4096), dense(4096, 4096), dense(4096, 1000)],
    ),
    "googlenet": (
        224,
        6_998_552,
        [
            *(conv(7, 3, 64), conv(1, 64, 64), conv(3, 64, 192)),
            *(inception(192, 64, (96, 128), (16, 32), 32), inception(256, 128, (128, 192), (32, 96), 64)),
            *(inception(480, 192, (96, 208), (16, 48), 64), inception(512, 160, (112, 224), (24, 64), 64)),
            *(inception(512, 128, (128, 256), (24, 64), 64), inception(512, 112, (144, 288), (32, 64), 64)),
            inception(528, 256, (160, 320), (32, 128), 128),
            *(inception(832, 256, (160, 320), (32, 128), 128), inception(832, 384, (192, 384), (48, 128), 128)),
        ],
        [dense(1024, 1000)],
    ),
    "overfeat": (
        231,
        145_920_872,
        [conv(11, 3, 96), conv(5, 96, 256), conv(3, 256, 512), conv(3, 512, 1024), conv(3, 1024, 1024)],
        [dense(1024 * 6 * 6, 3072), dense(3072, 4096), dense(4096, 1000)],
    ),
    "vgg16": (
        224,
        138_357_544,
        [
            *(conv(3, 3, 64), conv(3, 64, 64), conv(3, 64, 128), conv(3, 128, 128)),
            *(conv(3, 128, 256), conv(3, 256, 256), conv(3, 256, 256)),
            *(conv(3, 256, 512), conv(3, 512, 512), conv(3, 512, 512)),
            *(conv(3, 512, 512), conv(3, 512, 512), conv(3, 512, 512)),
        ],
        [dense(512 * 7 * 7, 4096), dense(4096, 4096), dense(4096, 1000)],
    ),
}


@pytest.mark.parametrize("model", CONVNETS)
def test_a_network_has_the_published_number_of_parameters(model: str) -> None:
    image_size, published, convolutions, dense_layers = SIZES[model]
    variables = variables_at(model, image_size)
    assert sum(math.prod(variable.shape) for variable in variables) == published
    assert sum(convolutions) + sum(dense_layers) == published
    assert variables[0].shape[2] == CHANNELS
    assert variables[-1].shape == (CLASSES,)


@pytest.mark.parametrize("model", CONVNETS)
def test_the_smallest_image_is_the_smallest(model: str) -> None:
    smallest = MODELS[model].smallest_image
    assert smallest is not None
    assert all(min(variable.shape) > 0 for variable in variables_at(model, smallest))
    lowest = 32  # of the factor
    if smallest > lowest or model == "vgg16":
        with pytest.raises(BadInput, match="do not fit into"):
            variables_at(model, smallest - 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("overfeat", "--image-size", "70"), "image_size 70 does not fit overfeat: it needs 71 to 512 pixels."),
        (("vgg16", "--image-size", "31"), "image_size is 31, but should be greater than or equal to 32."),
        (("vgg16", "--image-size", "600"), "image_size is 600, but should be less than or equal to 512."),
        (("mnist_mlp", "--passes", "both"), "passes both belongs to model alexnet, googlenet, overfeat, vgg16, not to"),
        (("alexnet", "--passes", "all"), "passes is 'all', but should be 'forward' or 'both'."),
        (("alexnet", "--matrix", "100"), "matrix 100 belongs to MNIST and digits; alexnet allows 784."),
        (
            ("alexnet", "--driver", "native"),
            "driver native does not train alexnet; it trains matrix_factorisation, mnist_mlp, mnist_so",
        ),
        (("ops_chain", "--driver", "cluster"), "driver cluster does not train ops_chain; it trains mnist_deep,"),
        (("ops_loop", "--nodes", "15"), "nodes is 15, but should be a multiple of 10."),
        (("ops_chain", "--nodes", "200000"), "nodes is 200000, but should be less than or equal to 100000."),
        (("ops_chain", "--gradient-cost", "2"), "gradient_cost 2 does not fit ops_chain, which allows 1: it has no"),
        (
            ("alexnet", "--passes", "forward", "--gradient-cost", "2"),
            "gradient_cost 2 does not fit passes forward, which allows 1: it has no backward pass.",
        ),
    ],
)
def test_a_wrong_size_is_refused_in_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(cli.app, ["train", "--model", *arguments])
    assert isinstance(result.exception, BadInput)  # exit code 2
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_dataset_follows_from_the_model() -> None:
    assert spec_of("alexnet").dataset == spec_of("ops_chain").dataset == SYNTHETIC
    assert spec_of("mnist_softmax").dataset == "mnist"
    for model, dataset, allowed in (
        ("alexnet", "mnist", "synthetic"),
        ("mnist_softmax", SYNTHETIC, "mnist and digits"),
    ):
        factors = spec_of(model).factors() | {"dataset": dataset}
        with pytest.raises(ValueError, match=f"dataset {dataset} does not fit {model}, which allows {allowed}"):
            TrialSpec.model_validate(factors)


def test_synthetic_images_are_a_function_of_the_seed() -> None:
    images.draw.cache_clear()
    data = images.draw(5, 300, 1000)
    assert data.train_images.shape == (images.TRAIN, 300)
    assert data.train_labels.shape == (images.TRAIN, 1000)
    assert (data.train_labels.sum(axis=1) == 1).all()
    assert data.test_images.shape == (images.TEST, 300)
    assert data.train_images.std() == pytest.approx(images.DEVIATION, rel=0.02)
    images.draw.cache_clear()
    np.testing.assert_array_equal(images.draw(5, 300, 1000).train_images, data.train_images)
    assert (images.draw(6, 300, 1000).train_images != data.train_images).all()


def test_a_layer_keeps_the_scale_of_its_input() -> None:
    weights = scaled_normal((3, 3, 32, 64), np.random.default_rng(1))
    assert weights.dtype == np.float32
    assert weights.std() == pytest.approx(math.sqrt(2 / (3 * 3 * 32)), rel=0.02)
