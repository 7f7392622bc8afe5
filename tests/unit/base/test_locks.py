"""Locks between processes say why they cannot be held."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from tmflow.base.errors import BadInput
from tmflow.base.locks import locked


def test_the_file_is_open_for_writing_because_flock_needs_it_on_nfs(tmp_path: Path) -> None:
    for _ in ("made", "found"):
        with locked(tmp_path / "a.lock", "the lock", "waiting") as handle:
            assert fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = tmp_path / "a.lock"
    with (
        pytest.raises(BadInput, match=f"the lock, {path}, cannot be locked: No locks available"),
        locked(path, "the lock", "waiting"),
    ):
        pass
