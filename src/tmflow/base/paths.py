"""The folders of the project: its checkout, its results and its locks."""

from __future__ import annotations

import os
from pathlib import Path

from tmflow.base.errors import BadInput

# Each of these marks a checkout; neither exists two levels above an installed package.
MARKERS = ("Snakefile", "pyproject.toml")


def project_root() -> Path:
    """The checkout: $TMFLOW_ROOT if set, else the checkout of this editable installation.

    Raises BadInput if there is no checkout.
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

    It need not exist yet. Raises BadInput if there is neither.
    """
    override = os.environ.get("TMFLOW_RESULTS_DIR")
    if override:
        return Path(override).expanduser().absolute()
    try:
        return project_root() / "results"
    except BadInput as error:
        raise BadInput(f"{str(error).removesuffix('.')}, or TMFLOW_RESULTS_DIR to a folder for results.") from error


def lock_dir() -> Path:
    """The folder of the locks that all users and checkouts of this machine share: $TMFLOW_LOCK_DIR, else /tmp.

    It is not the temporary folder of a user or process. Processes with different folders do not wait for each other.
    """
    return Path(os.environ.get("TMFLOW_LOCK_DIR", "/tmp"))
