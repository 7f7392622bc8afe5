"""The native libraries, up to date, as `make build` leaves them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tmflow.native.build import build
from tmflow.native.loader import library_dir

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session", autouse=True)
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the libraries, built from the sources as they are now."""
    with (tmp_path_factory.mktemp("build") / "log").open("w", encoding="utf-8") as log:
        build(library_dir().parent / "cmake", library_dir(), log)
    return library_dir()
