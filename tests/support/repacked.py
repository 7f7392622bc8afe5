"""The members of a valid bundle, to change and to pack again with a matching manifest."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.raw_zips import STORED, Entry, zip_file
from tmflow.base.canonical_json import canonical_json

Members = dict[str, bytes]
MANIFEST = "manifest.json"


def good_members(path: Path) -> Members:
    """The members of a valid bundle, without its manifest."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}


def manifest_of(members: Mapping[str, bytes], **changes: Any) -> bytes:
    """The manifest of these members."""
    files = [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(members.items())
        if name != MANIFEST
    ]
    return canonical_json({"format": "tmflow-bundle", "version": 1, "files": files} | changes).encode()


def entries(members: Members, method: int = STORED) -> list[Entry]:
    """The members as zip entries, with a correct manifest unless they contain one."""
    whole = {MANIFEST: manifest_of(members)} | members
    return [Entry(name.encode(), data, method) for name, data in sorted(whole.items())]


def zipped(members: Members, method: int = STORED) -> bytes:
    """A bundle of these members."""
    return zip_file(entries(members, method))
