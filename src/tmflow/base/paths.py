"""Where the project lies on disk: its checkout, and the folder of its results."""

from __future__ import annotations

import os
from pathlib import Path

from tmflow.base.errors import BadInput

# Either of them marks a checkout; an installed package has neither two levels above it.
MARKERS = ("Snakefile", "pyproject.toml")


def project_root() -> Path:
    """The checkout: $TMFLOW_ROOT if it is set, else the one that this (editable) install was made from.

    Raises BadInput where there is no checkout.
    """
    override = os.environ.get("TMFLOW_ROOT")
    if override:
        root, origin = Path(override).expanduser().absolute(), "TMFLOW_ROOT"
    else:
        root, origin = Path(__file__).resolve().parents[3], "the installed tmflow package"
    if not any((root / marker).is_file() for marker in MARKERS):
        raise BadInput(
            f"no checkout of tmflow at {root} (named by {origin}): neither {' nor '.join(MARKERS)} is there; "
            "set TMFLOW_ROOT to the folder of the checkout."
        )
    return root


def results_dir() -> Path:
    """The folder of everything that a study produces: $TMFLOW_RESULTS_DIR if set, else results/ of the checkout.

    It need not exist yet.
    """
    override = os.environ.get("TMFLOW_RESULTS_DIR")
    return Path(override).expanduser().absolute() if override else project_root() / "results"


def lock_dir() -> Path:
    """The folder of the locks that all of this machine shares, whichever user or checkout: $TMFLOW_LOCK_DIR, else /tmp.

    Not the temporary folder of a user or process. What runs under another folder does not wait for the rest.
    """
    return Path(os.environ.get("TMFLOW_LOCK_DIR", "/tmp"))
