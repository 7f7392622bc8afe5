"""The committed speed reports agree with the files that they were made from."""

from __future__ import annotations

import re

import pytest

from tmflow.base.paths import project_root
from tmflow.benchmark.markdown import render
from tmflow.benchmark.storage import read_benchmark
from tmflow.charts import figures

SPEED = project_root() / "docs" / "speed"


@pytest.mark.slow
def test_every_report_is_that_of_its_file() -> None:
    files = sorted(SPEED.glob("*.json"))
    assert files
    for path in files:
        text, drawn = render(read_benchmark(path), path.stem)
        assert path.with_suffix(".md").read_text(encoding="utf-8") == f"{text}\n"
        for name, spec in drawn.items():
            # Not to the byte: the positions of text depend on the fonts of the machine.
            assert texts(figures.svg(spec)) == texts((SPEED / name).read_text(encoding="utf-8"))


def texts(svg: str) -> list[str]:
    """The texts in a picture: titles, captions, names, values and axes."""
    return re.findall(r">([^<>]+)</text>", svg)
