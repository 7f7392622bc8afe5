"""tmflow: which way of synchronising parallel SGD should you use, and does transactional memory ever pay off?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tmflow._version import __version__

if TYPE_CHECKING:
    from tmflow.advice.advice import advise
    from tmflow.api import open_study
    from tmflow.parallel.workers import Workers


__all__ = ["Workers", "__version__", "advise", "open_study"]


def __getattr__(name: str) -> Any:
    # Imported when they are asked for: pandas, what draws, and TensorFlow take seconds, which no command has.
    if name == "open_study":
        from tmflow.api import open_study

        return open_study
    if name == "Workers":
        from tmflow.parallel.workers import Workers

        return Workers
    if name == "advise":
        from tmflow.advice.advice import advise

        return advise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
