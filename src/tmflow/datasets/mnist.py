"""MNIST: search on this machine, download, verification, and the split of TensorFlow 1's tutorial."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmflow.base.errors import BadInput
from tmflow.base.paths import project_root
from tmflow.datasets.dataset import Dataset, Floats, Split, one_hot
from tmflow.datasets.download import NotAvailable, download
from tmflow.datasets.mnist_files import Catalogue, read_uncompressed
from tmflow.datasets.mnist_files import catalogue as official

# read_data_sets() of TensorFlow 1, which the study used, validates on the first 5,000 of the 60,000 training images.
VALIDATION_IMAGES = 5_000


def download_folder() -> Path:
    """The folder of downloads: data/mnist of the checkout."""
    return project_root() / "data" / "mnist"


def user_folders() -> list[Path]:
    """The folders that the user names: $TMFLOW_DATA_DIR/mnist and $TMFLOW_DATA_DIR, if set."""
    folder = os.environ.get("TMFLOW_DATA_DIR")
    return [Path(folder).expanduser() / "mnist", Path(folder).expanduser()] if folder else []


def find(catalogue: Catalogue | None = None) -> Path | None:
    """Find a folder with all files of MNIST, gzipped or not, without reading them.

    Raises BadInput if a folder of the user has only some of them.
    """
    catalogue = catalogue or official()
    for folder in user_folders():
        missing = _missing(folder, catalogue)
        if not missing:
            return folder
        if len(missing) < len(catalogue.files):
            names = ", ".join(catalogue.files[role].name for role in missing)
            raise BadInput(f"{folder}, named by TMFLOW_DATA_DIR, holds only a part of MNIST: {names} (.gz) is missing.")
    return None if _missing(download_folder(), catalogue) else download_folder()


def find_verified(catalogue: Catalogue | None = None) -> Path | None:
    """As `find`, but read and verify every file, in a fifth of a second. Downloads nothing.

    Raises BadInput as `find` and `verify` do.
    """
    folder = find(catalogue)
    if folder is not None:
        verify(folder, catalogue)
    return folder


def obtain(catalogue: Catalogue | None = None) -> Path:
    """As `find`, but first download missing files to the download folder.

    Raises NotAvailable with the folders, the failures and advice.
    """
    catalogue = catalogue or official()
    folder = find(catalogue)
    if folder is not None:
        return folder
    folder = download_folder()
    try:
        download((catalogue.files[role] for role in _missing(folder, catalogue)), folder, catalogue.mirrors)
    except NotAvailable as error:
        looked = " and ".join(str(place) for place in [*user_folders(), folder])
        raise NotAvailable(
            f"MNIST is not in {looked}, and downloading it failed ({error}); put its four files there, "
            "or set TMFLOW_DATA_DIR to the folder that holds them."
        ) from error
    return folder


def verify(folder: Path, catalogue: Catalogue | None = None) -> dict[str, NDArray[np.uint8]]:
    """Read the files in `folder` as arrays [items, values of an item], by role.

    Raises BadInput, naming the first file that is not identical to the official one.
    """
    catalogue = catalogue or official()
    arrays = {}
    for role, file in catalogue.files.items():
        path = _path(folder, file.name)
        if path is None:
            raise BadInput(f"{folder} has no {file.name} (.gz).")
        arrays[role] = file.decode(read_uncompressed(path), path)
    return arrays


def load(folder: Path, catalogue: Catalogue | None = None) -> Dataset:
    """Load MNIST from its folder: 55,000 images to train, 5,000 to validate, 10,000 to test.

    Raises BadInput as `verify` does.
    """
    catalogue = catalogue or official()
    arrays = verify(folder, catalogue)
    images, labels = _scaled(arrays["train_images"]), one_hot(arrays["train_labels"][:, 0])
    test: Split = _scaled(arrays["test_images"]), one_hot(arrays["test_labels"][:, 0])
    validation: Split = images[:VALIDATION_IMAGES], labels[:VALIDATION_IMAGES]
    train: Split = images[VALIDATION_IMAGES:], labels[VALIDATION_IMAGES:]
    return Dataset.of("mnist", catalogue.sha256, train, validation, test)


def _scaled(pixels: NDArray[np.uint8]) -> Floats:
    """Scale bytes to [0, 1], rounded as in the tutorial, which multiplies by 1/255."""
    return np.multiply(pixels, np.float32(1 / 255), dtype=np.float32)


def _path(folder: Path, name: str) -> Path | None:
    candidates = (folder / name, folder / f"{name}.gz")
    try:
        return next((path for path in candidates if path.is_file()), None)
    except OSError as error:
        raise BadInput(f"{folder} cannot be searched for MNIST: {error.strerror}.") from error


def _missing(folder: Path, catalogue: Catalogue) -> list[str]:
    return [role for role, file in catalogue.files.items() if _path(folder, file.name) is None]
