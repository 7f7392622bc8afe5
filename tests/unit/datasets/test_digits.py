"""The digits in MNIST's shape: scikit-learn's, scaled without rounding differences, split without leakage."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tmflow.datasets import digits, load
from tmflow.datasets.dataset import Dataset


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load("digits")


def test_has_the_shape_of_mnist(dataset: Dataset) -> None:
    parts = {
        "train": (dataset.train_images, dataset.train_labels),
        "validation": (dataset.validation_images, dataset.validation_labels),
        "test": (dataset.test_images, dataset.test_labels),
    }
    assert {name: len(images) for name, (images, _) in parts.items()} == {"train": 1297, "validation": 200, "test": 300}
    for images, labels in parts.values():
        assert images.shape == (len(labels), 784)
        assert labels.shape == (len(labels), 10)
        assert images.dtype == labels.dtype == np.float32
        assert 0 <= images.min() < images.max() <= 1
        assert (labels.sum(0) >= 18).all()  # every digit is in every part


def test_is_scikit_learns_table_in_its_order(dataset: Dataset) -> None:
    images, labels = load_digits(return_X_y=True)
    mine = np.concatenate([dataset.train_images, dataset.validation_images, dataset.test_images])
    assert np.array_equal(mine, digits.upscale(images.astype(np.uint8).reshape(-1, 8, 8)))
    parts = (dataset.train_labels, dataset.validation_labels, dataset.test_labels)
    assert np.array_equal(np.concatenate(parts).argmax(1), labels)


def test_no_image_is_in_two_parts(dataset: Dataset) -> None:
    parts = (dataset.train_images, dataset.validation_images, dataset.test_images)
    assert len({image.tobytes() for part in parts for image in part}) == sum(len(part) for part in parts)


def test_upscaling_is_bilinear() -> None:
    row, column = np.mgrid[0:8, 0:8]
    image = (row + column).astype(np.uint8)
    big = digits.upscale(image[None]).reshape(28, 28) * 16
    # Bilinear interpolation reproduces a plane, up to the half pixel outside the outermost centres.
    centre = np.clip((np.arange(28) + 0.5) * 8 / 28 - 0.5, 0, 7)
    assert np.allclose(big, centre[:, None] + centre[None, :], atol=1e-6)
    assert np.array_equal(digits.upscale(np.full((1, 8, 8), 16, np.uint8)), np.ones((1, 784), np.float32))


def test_another_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "FILE_SHA256", "0" * 64)
    with pytest.raises(digits.BadInput, match="not the table of digits that tmflow knows"):
        digits.load()
