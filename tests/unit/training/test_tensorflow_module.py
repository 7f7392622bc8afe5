"""The import of TensorFlow prints everything but the notices that it prints at every import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment

NOTICES = """\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795703842.076509   13814 port.cc:153] oneDNN custom operations are on. You may see slightly different ...
"""
OTHERS = "E0000 00:00:1795703842.1 13814 dso_loader.cc:1] no such library\nwritten by Python\n"
WRITING = f"import os, sys\nos.write(2, {NOTICES.encode()!r})\nos.write(2, {OTHERS[:-18].encode()!r})\n"
IMPORT = "from tmflow.training.tensorflow_module import import_tensorflow; import_tensorflow()"


@pytest.mark.parametrize("fails", [False, True])
def test_only_notices_are_left_out(fails: bool, tmp_path: Path) -> None:
    """Also of an import that fails."""
    end = "raise ImportError('broken')" if fails else ""
    (tmp_path / "tensorflow.py").write_text(f"{WRITING}print('written by Python', file=sys.stderr)\n{end}\n")
    before = environment()
    paths = f"{tmp_path}:{before.get('PYTHONPATH', '')}".rstrip(":")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], check=False, capture_output=True, text=True, env=before | {"PYTHONPATH": paths}
    )
    assert done.returncode == fails
    assert done.stderr.startswith(OTHERS)
    assert ("ImportError: broken" in done.stderr) == fails
    assert "oneDNN" not in done.stderr
