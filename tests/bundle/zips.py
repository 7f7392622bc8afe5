"""Zip files that no ordinary program writes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tmflow.bundle import format
from tmflow.bundle import format as manifest
from tmflow.bundle.format import Entry

Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    """The members of a zip file, without its manifest."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != format.MANIFEST}


def zipped(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file of exactly these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return file.getvalue()


def bundled(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A bundle of these members, with a correct manifest."""
    entries = [Entry(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in members.items()]
    return zipped({**members, format.MANIFEST: manifest.text(entries)}, compression)
