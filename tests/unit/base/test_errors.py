"""Suggestions in messages about user errors."""

from __future__ import annotations

import errno
import os

import pytest

from tmflow.base.errors import refusal, unknown

STRATEGIES = ("lock", "nolock", "tf_lock", "tf_nolock", "block_stm", "stm", "adaptive")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("lokc", "lock"), ("blockstm", "block_stm"), ("adapt", "adaptive"), ("foo", None), ("mysql", None), ("", None)],
)
def test_only_what_is_alike_is_suggested(wrong: str, meant: str | None) -> None:
    said = str(unknown("strategy", wrong, STRATEGIES))
    assert said.startswith(f"unknown strategy '{wrong}'")
    assert said.endswith("; valid: adaptive, block_stm, lock, nolock, stm, tf_lock, tf_nolock.")
    assert (f"(did you mean '{meant}'?)" in said) if meant else ("did you mean" not in said)


def test_of_os_errors_only_those_of_disks_and_rights_are_the_user_s() -> None:
    denied = OSError(errno.EROFS, os.strerror(errno.EROFS), "/there")
    assert refusal(denied) == "/there cannot be used: Read-only file system."
    assert refusal(OSError(errno.EACCES, "no")) is None, "nobody can tell what it is about"
    assert refusal(FileNotFoundError(errno.ENOENT, "no", "/there")) is None
