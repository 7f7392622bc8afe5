"""The committed speed report says what the file that it was made from says."""

from __future__ import annotations

from tmflow.bench import saved
from tmflow.bench.report import markdown
from tmflow.paths import project_root

SPEED = project_root() / "docs" / "speed"


def test_every_report_is_that_of_its_file() -> None:
    files = sorted(SPEED.glob("*.json"))
    assert files
    for path in files:
        assert markdown(saved.read(path)) in path.with_suffix(".md").read_text(encoding="utf-8")
