"""Packages that tmflow's extras bring, and the error for one that is missing, which says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tmflow.base.errors import BadInput
from tmflow.base.paths import is_installed_package

# The extra that brings a package, by the name that is imported. A test compares them with pyproject.toml.
EXTRAS = {
    **dict.fromkeys(("keras", "tensorflow"), "tensorflow"),
    **dict.fromkeys(
        (
            *("alembic", "altair", "annotated_types", "ipykernel", "jinja2", "markdown_it", "markupsafe", "msgspec"),
            *("nbclient", "nbformat", "pandas", "psutil", "psycopg", "pydantic", "pydantic_core", "ruptures", "scipy"),
            *("sklearn", "snakemake", "sqlalchemy", "threadpoolctl", "tqdm", "traitlets", "typer", "vl_convert"),
            "yaml",
        ),
        "study",
    ),
    **dict.fromkeys(("starlette", "streamlit"), "portal"),
}


class NotInstalled(BadInput, ModuleNotFoundError):
    """A package that one of tmflow's extras brings is missing; programs may catch it as the import's own error."""


@contextmanager
def requires_extra(what: str) -> Iterator[None]:
    """Raise NotInstalled, which says how to install it, where an import of `what` lacks a package of an extra.

    Any other module that is missing stays the import's own error: a part of an installed package, one of a user's
    program, or a bug.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if isinstance(error, NotInstalled) or error.name not in EXTRAS:
            raise
        raise not_installed(what, error.name) from error


def not_installed(what: str, package: str) -> NotInstalled:
    """The error for `what`, which needs a package of EXTRAS that is missing; it says how to install it."""
    remedy = install_command(f"'tmflow[{EXTRAS[package]}]'")
    return NotInstalled(f"{what} needs the package {package}, which is not installed: run `{remedy}`.")


def install_command(requirement: str) -> str:
    """The command that installs what pip calls `requirement`; in a checkout that for all locked versions."""
    return f"pip install {requirement}" if is_installed_package() else "make setup"
