"""The committed speed reports say and show what the files that they were made from say."""

from __future__ import annotations

import re

from tmflow.base.paths import project_root
from tmflow.benchmark.kinds import read_any, shown
from tmflow.charts import figures

SPEED = project_root() / "docs" / "speed"


def test_every_report_is_that_of_its_file() -> None:
    files = sorted(SPEED.glob("*.json"))
    assert files
    for path in files:
        text, drawn = shown(read_any(path), path.stem)
        assert path.with_suffix(".md").read_text(encoding="utf-8") == f"{text}\n"
        for name, spec in drawn.items():
            # Not to the byte: where text stands depends on the fonts of the machine.
            assert texts(figures.svg(spec)) == texts((SPEED / name).read_text(encoding="utf-8"))


def texts(svg: str) -> list[str]:
    """What is written in a picture: titles, captions, names, values and axes."""
    return re.findall(r">([^<>]+)</text>", svg)
