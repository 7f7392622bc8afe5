"""What the lists of a run count depends on its strategy."""

from __future__ import annotations

import pytest

from tmflow.spec.strategies import kind_of_retries


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        ("stm", "retries"),
        ("leashed", "failed_publications"),
        ("striped", "taken_blocks"),
        ("combining", "taken_blocks"),
    ],
)
def test_the_strategy_decides_what_old_runs_count_as_retries(strategy: str, kind: str) -> None:
    assert kind_of_retries(strategy) == kind
