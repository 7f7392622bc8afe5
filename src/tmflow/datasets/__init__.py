"""The datasets: MNIST, and scikit-learn's digits in its shape for machines without MNIST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tmflow.base.errors import unknown
from tmflow.datasets import digits, mnist
from tmflow.datasets.dataset import Dataset, truncate
from tmflow.datasets.download import NotAvailable

if TYPE_CHECKING:
    from tmflow.spec.factors import Dataset as Name

__all__ = ["Dataset", "NotAvailable", "Resolved", "load", "resolve", "truncate"]

REQUESTS = ("auto", "mnist", "digits")


@dataclass(frozen=True)
class Resolved:
    """The dataset of a request on this machine: its name, its place, and a warning to show once, if any."""

    name: Name
    where: str
    warning: str | None = None


def resolve(requested: str) -> Resolved:
    """Resolve a request: `auto` is MNIST if it is available, else the digits with a warning.

    MNIST is downloaded if it is missing, and verified. Raises BadInput for an unknown request, for a wrong file of
    MNIST, and if `mnist` is requested but not available.
    """
    if requested not in REQUESTS:
        raise unknown("dataset", requested, REQUESTS)
    if requested == "digits":
        return _digits()
    try:
        folder = mnist.obtain()
    except NotAvailable as error:
        if requested == "mnist":
            raise
        return _digits(f"training on scikit-learn's digits instead of MNIST: {error}")
    mnist.verify(folder)
    return Resolved("mnist", str(folder))


def load(name: Name) -> Dataset:
    """Load and verify a dataset: about half a second for MNIST. Raises BadInput as `resolve` does."""
    return digits.load() if name == "digits" else mnist.load(mnist.obtain())


def _digits(warning: str | None = None) -> Resolved:
    return Resolved("digits", "scikit-learn's load_digits", warning)
