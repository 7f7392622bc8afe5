"""Fixtures for the native libraries, built as by `make build`."""

from __future__ import annotations

import os
from pathlib import Path

import cpp
import pytest
import runner
from variants import Variant, why_not

from tmflow.native import registry
from tmflow.native.build import build
from tmflow.native.loader import library_dir

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session", autouse=True)
def libraries(common: Path) -> Path:
    """The folder of the libraries, built from the current sources."""
    with cpp.alone_in(common / "libraries") as folder, (folder / "log").open("w", encoding="utf-8") as log:
        build(library_dir().parent / "cmake", library_dir(), log)
    return library_dir()


@pytest.fixture(scope="session")
def builds() -> cpp.Builds:
    """The builds of the C++ sources alone, here and for other machines."""
    return cpp.Builds()


@pytest.fixture(scope="session")
def native_program(common: Path) -> runner.Program:
    """tmflow-native for this machine."""
    with cpp.alone_in(common / "native") as folder:
        return runner.made(folder, cpp.BUILDS / "native")


@pytest.fixture(scope="session", params=runner.FOREIGN)
def foreign_program(request: pytest.FixtureRequest, builds: cpp.Builds) -> runner.Program:
    """tmflow-native for an emulated machine."""
    folder = builds.built(request.param, "tmflow-native")
    return runner.Program(folder / "tmflow-native", runner.EMULATORS[request.param])


@pytest.fixture
def runs_here(request: pytest.FixtureRequest) -> None:
    """Skip a test whose parameter `strategy` cannot run in this process, with the reason."""
    callspec = getattr(request.node, "callspec", None)
    strategy = callspec.params.get("strategy") if callspec else None
    if strategy in registry.source_names() and (reason := why_not(Variant(strategy))):
        pytest.skip(reason)
