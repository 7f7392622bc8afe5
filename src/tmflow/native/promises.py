"""What strategies promise for updates: results are shown where nothing is built, and their readers have to know."""

from __future__ import annotations

from functools import cache

from tmflow.native import registry

# As the registry of the core has it; tests/native/test_registry.py holds the two together.
UPDATES = {
    "tf_lock": "tensor",
    "tf_nolock": "none",
    "lock": "tensor",
    "nolock": "none",
    "lock_pthread": "tensor",
    "spin": "tensor",
    "spin_then_mutex": "tensor",
    "htm": "tensor",
    "itm": "tensor",
    "stm": "tensor",
    "tle": "tensor",
    "striped": "block",
    "combining": "block",
    "atomic": "element",
    "block_stm": "tensor",
    "leashed": "tensor",
    "adaptive": "tensor",
}


@cache
def promises_of_updates() -> dict[str, str | None]:
    """The promise of each strategy that is known here: of ours, and of those that are built."""
    return {**UPDATES, **{built.name: built.promise_updates for built in registry.variants() if built.promise_updates}}
