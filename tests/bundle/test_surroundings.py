"""Files next to a bundle are untrusted, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.sample_bundles import sample_bundle
from tmflow.bundle.verify import verify


def test_modules_in_the_folder_of_a_bundle_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample_bundle(tmp_path)
    (tmp_path / "secrets.py").write_text("raise SystemExit('run!')\n")
    (tmp_path / "tmflow").mkdir()
    (tmp_path / "tmflow" / "__init__.py").write_text("raise SystemExit('run!')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tmflow.bundle.verify.WORTH_IT", 0)
    monkeypatch.setattr("tmflow.bundle.verify.cpus_allowed", lambda: 2)
    assert verify(path).ok


def test_a_pipe_is_no_bundle(tmp_path: Path) -> None:
    """Opening a pipe would block until something is written to it."""
    os.mkfifo(tmp_path / "pipe.zip")
    (problem,) = verify(tmp_path / "pipe.zip").problems
    assert problem.text.endswith("pipe.zip is a pipe or another special file; a bundle is a regular zip file.")
