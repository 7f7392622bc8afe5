"""The programs of examples/ for one's own model run, and print what they promise."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tmflow.advice.candidates import STRATEGIES
from tmflow.base.paths import project_root

EXAMPLES = project_root() / "examples"
KERAS = ["2 workers, a plain lock", "2 workers, no lock", "2 workers, the advised strategy", "advice: "]
ADVISED = [
    "1 thread, a plain lock",
    "2 threads, a plain lock",
    "2 threads, no lock",
    "2 threads, the advised strategy",
    "advice: ",
]
THREADS = ["2 threads, strategy auto", "2 threads, a plain lock", "2 threads, no lock"]
LINES = {
    "keras_digits": ["Keras's SGD, fit", *KERAS],
    "keras_recommender": ["Keras's Adam, fit", *KERAS],
    "keras_word2vec": ["Keras's Adam, fit", *KERAS],
    "tensorflow_loop": ["1 thread, Keras's SGD", *ADVISED],
    "numpy_logistic_regression": ["1 thread, NumPy's own update", *ADVISED],
    "pytorch_hogwild": ["PyTorch's SGD", "1 thread ", *THREADS],
}
NEEDED = {"keras": "keras", "tensorflow": "tensorflow", "pytorch": "torch"}
# By chance it is 50 % for word2vec, whose pairs of words are hard to tell apart, and for the recommender.
LEAST_ACCURACY = {"keras_word2vec": 54.0, "keras_recommender": 80.0}


@pytest.mark.slow
@pytest.mark.timeout(1800)  # an example is some hundred seconds of work
@pytest.mark.parametrize("name", LINES)
def test_it_prints_a_time_and_an_accuracy_for_each_way(name: str) -> None:
    if library := NEEDED.get(name.partition("_")[0]):
        pytest.importorskip(library, reason=f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(LINES[name])
    for line, start in zip(lines, LINES[name], strict=True):
        assert line.startswith(start)
        if start == "advice: ":
            assert re.search(rf"^advice: ({'|'.join(STRATEGIES)}) (has the smallest time|is faster than)", line)
            continue
        assert re.search(r"\d s   ", line)
        assert float(re.search(r"accuracy ([\d.]+) %", line)[1]) > LEAST_ACCURACY.get(name, 85)
