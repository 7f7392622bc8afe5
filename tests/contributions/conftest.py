"""A quarantine in a temporary folder, and a bundle to upload."""

from __future__ import annotations

from pathlib import Path

import pytest
from staged import Clock

from tests.support.sample_bundles import sample_bundle
from tmflow.contributions.quarantine import Quarantine


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quarantine(tmp_path: Path, clock: Clock) -> Quarantine:
    return Quarantine(tmp_path / "quarantine", now=clock, patience_s=0.2)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return sample_bundle(tmp_path / "made", probe=None)
