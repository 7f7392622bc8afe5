"""The C++ tests, plain and under the sanitizers."""

from __future__ import annotations

from pathlib import Path

import cpp
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["", "thread", "address"])
def test_cpp_tests_pass(sanitizer: str, tmp_path: Path) -> None:
    cpp.build(tmp_path, TMFLOW_SANITIZE=sanitizer)
    cpp.run_tests(tmp_path)
