"""Documents are cached until their file changes."""

from __future__ import annotations

import os
from pathlib import Path

from tmflow.base.documents import kept, read_yaml


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    read = kept(read_yaml)
    file.write_text("[1]")
    other.write_text("[2]")
    first = read(file)
    assert read(file) is first
    assert read(other) == [2]
    file.write_text("[3]")
    os.utime(file, ns=(0, 1))
    assert read(file) == [3]
