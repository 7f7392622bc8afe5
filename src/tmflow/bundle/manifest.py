"""The manifest of a bundle: its members with their sizes and hashes, and through its own hash the bundle's identity."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from tmflow.base.canonical_json import canonical_json
from tmflow.bundle import format


class Entry(NamedTuple):
    """A member."""

    path: str
    bytes: int
    sha256: str


def text(entries: Sequence[Entry], version: int = format.VERSION) -> bytes:
    """The one spelling of a manifest: two bundles of the same content have the same."""
    files = [entry._asdict() for entry in sorted(entries)]
    return canonical_json({"files": files, "format": format.FORMAT, "version": version}).encode()


def identity(data: bytes) -> str:
    """The identity of the bundle that has this manifest."""
    return hashlib.sha256(data).hexdigest()
