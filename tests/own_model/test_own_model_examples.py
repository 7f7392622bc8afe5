"""The programs of examples/ for one's own model run, and print what they promise."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tmflow.base.paths import project_root

EXAMPLES = project_root() / "examples"
LINES = {
    "keras_digits": ["Keras's SGD, fit", "2 workers, chosen for you", "2 workers, a plain lock", "2 workers, no lock"],
    "tensorflow_loop": ["1 thread ", "2 threads, chosen for you", "2 threads, a plain lock", "2 threads, no lock"],
    "numpy_logistic_regression": ["2 threads, chosen for you", "2 threads, a plain lock", "2 threads, no lock"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_it_prints_a_time_and_an_accuracy_for_each_way(name: str) -> None:
    if name.startswith("keras"):
        pytest.importorskip("keras", reason="Keras comes with TensorFlow")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(LINES[name])
    for line, start in zip(lines, LINES[name], strict=True):
        assert line.startswith(start)
        assert re.search(r"\d s   ", line)
        assert float(re.search(r"accuracy ([\d.]+) %", line)[1]) > 85  # type: ignore[index]
