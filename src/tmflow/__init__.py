"""tmflow: which way of synchronising parallel SGD should you use, and does transactional memory ever pay off?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tmflow._version import __version__
from tmflow.base.extras import requires_extra

if TYPE_CHECKING:
    from tmflow.advice.advice import advise, advise_for_sizes
    from tmflow.api import open_study
    from tmflow.parallel.workers import Workers


__all__ = ["Workers", "__version__", "advise", "advise_for_sizes", "open_study"]


_PLACES = {
    "Workers": "tmflow.parallel.workers",
    "advise": "tmflow.advice.advice",
    "advise_for_sizes": "tmflow.advice.advice",
    "open_study": "tmflow.api",
}


def __getattr__(name: str) -> Any:
    # Imported when they are asked for: pandas, what draws, and TensorFlow take seconds, which no command has, and an
    # installation for the optimizers alone has no pandas.
    if name in _PLACES:
        with requires_extra(f"tmflow.{name}"):
            return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
