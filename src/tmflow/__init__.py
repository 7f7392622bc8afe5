"""tmflow: which way of synchronising parallel SGD should you use, and does transactional memory ever pay off?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tmflow._version import __version__

if TYPE_CHECKING:
    from tmflow.api import open_study


__all__ = ["__version__", "open_study"]


def __getattr__(name: str) -> Any:
    if name == "open_study":  # imported when it is asked for: pandas and what draws take a second, which no command has
        from tmflow.api import open_study

        return open_study
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
