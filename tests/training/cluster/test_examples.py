"""The programs of examples/, as a reader starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tmflow.base.paths import project_root

pytestmark = pytest.mark.slow
LIMIT_S = 120


@contextmanager
def started(name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """An example as a process, which is killed at the end if it still runs."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    command = [sys.executable, f"examples/{name}.py", *words]
    with subprocess.Popen(
        command, cwd=project_root(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def printed(process: subprocess.Popen[str]) -> str:
    """The output of an example that ends without an error."""
    output, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, told
    return output


def accuracies(outputs: Sequence[str]) -> list[float]:
    """The accuracies that the examples have printed."""
    return [float(output.removeprefix("accuracy ")) for output in outputs]


def test_softmax_under_another_executor() -> None:
    with started("softmax") as process:
        assert accuracies([printed(process)])[0] > 0.9


def test_two_processes() -> None:
    with started("two_processes", "ps"), started("two_processes", "worker") as worker:
        assert printed(worker) == "238\n"


def test_a_server_and_two_workers() -> None:
    with (
        started("distributed_mnist", "ps", "0"),
        started("distributed_mnist", "worker", "0") as first,
        started("distributed_mnist", "worker", "1") as second,
    ):
        assert all(accuracy > 0.88 for accuracy in accuracies([printed(first), printed(second)]))
