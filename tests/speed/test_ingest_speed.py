"""The speed measurement of an ingest still works for each of its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.speed.ingest_speed import measured, write_files


@pytest.mark.slow
def test_each_part_is_measured(tmp_path: Path) -> None:
    assert min(measured(write_files(tmp_path, curve_points=1)[:2])) > 0
