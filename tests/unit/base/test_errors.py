"""What an error of the user's suggests."""

from __future__ import annotations

import pytest

from tmflow.base.errors import unknown

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
