"""Reads bundles: nothing is trusted before it is checked, and a bundle is never entirely in memory."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tmflow.bundle import format, zip_reader
from tmflow.bundle.format import Entry, Refused, decode_object
from tmflow.bundle.problems import Problem


class Bundle:
    """An open bundle whose members match its manifest; their bytes are checked while they are read.

    identity: hex SHA-256 of the manifest, whose bytes are `manifest_text`. version: the version of the format; 0 is a
    zip of run files without a manifest. signature: the unchecked signature of the manifest; None if unsigned.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._members = {member.name: member for member in zip_reader.members(file, path)}
        self.signature: bytes | None = None
        if format.MANIFEST in self._members:
            self.version = format.VERSION
            self.manifest_text = b"".join(self._read(format.MANIFEST))
            self.manifest = format.parse(self.manifest_text, self.where(format.MANIFEST))
            self._require_listed()
            if format.SIGNATURE in self._members:
                self.signature = b"".join(self._read(format.SIGNATURE))
        else:
            self.version = format.PLAIN
            self._require_run_files()
            self.manifest = tuple(sorted(map(self._entry, self._members)))
            self.manifest_text = format.text(self.manifest, self.version)
        self.identity = format.identity(self.manifest_text)
        self._entries = {entry.path: entry for entry in self.manifest}

    def where(self, member: str) -> str:
        """Name a member for an error message."""
        return f"{self.path}, {member}"

    def problem(self, member: str, error: Refused) -> Problem:
        """The problem of a member, without repeating its name."""
        message, where = str(error), self.where(member)
        return Problem(f"it{message.removeprefix(where)}" if message.startswith(where) else message, member)

    def run_members(self) -> list[str]:
        """The names of the run files, in order."""
        return [entry.path for entry in self.manifest if format.is_run_file(entry.path)]

    def document(self, name: str) -> dict[str, Any] | None:
        """A JSON document (one of `format.DOCUMENTS`); None if absent. Raises Refused if it is wrong."""
        return decode_object(b"".join(self.chunks(name)), self.where(name)) if name in self._entries else None

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a member in chunks. Raises Refused, possibly at the end, if the manifest disagrees."""
        entry, sha256, n_bytes = self._entries[name], hashlib.sha256(), 0
        for chunk in self._read(name):
            sha256.update(chunk)
            n_bytes += len(chunk)
            yield chunk
        if (n_bytes, sha256.hexdigest()) != (entry.bytes, entry.sha256):
            raise Refused(f"{self.where(name)} is not the file that the manifest lists: its hash or its size differs.")

    def lines(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the position and the text of each line of a run file.

        Raises Refused, possibly at the end, if the manifest disagrees or the text does not end with a line break.
        """
        where, number = f"{self.where(name)}, line", 0
        pieces: list[bytes] = []  # of an unfinished line
        n_bytes = 0
        try:
            for chunk in self.chunks(name):
                first, *others = chunk.split(b"\n")
                pieces.append(first)
                n_bytes += len(first)
                for begin in others:
                    number += 1
                    yield f"{where} {number}", b"".join(pieces).decode("utf-8")
                    pieces, n_bytes = [begin], len(begin)
                if n_bytes > format.MAX_LINE:
                    raise Refused(f"{where} {number + 1}: it has more than {format.MAX_LINE} bytes.")
        except UnicodeDecodeError as error:
            raise Refused(f"{where} {number} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
        if n_bytes:
            raise Refused(f"{self.where(name)} is cut off in line {number + 1}: its last line has no end.")

    def _read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a member, checked only against its zip file."""
        return zip_reader.read(self._file, self._members[name], self.where(name))

    def _entry(self, name: str) -> Entry:
        sha256 = hashlib.sha256()
        for chunk in self._read(name):
            sha256.update(chunk)
        return Entry(name, self._members[name].bytes, sha256.hexdigest())

    def _require_listed(self) -> None:
        inside = self._members.keys() - {format.MANIFEST, format.SIGNATURE}
        listed = {entry.path for entry in self.manifest}
        if (unlisted := min(inside - listed, default=None)) is not None:
            raise Refused(f"{self.path} has a member {unlisted!r}, which its manifest does not list; {format.ALLOWED}")
        if (missing := min(listed - inside, default=None)) is not None:
            raise Refused(f"{self.path} lacks {missing!r}, which its manifest lists.")

    def _require_run_files(self) -> None:
        strange = min((name for name in self._members if not format.PLAIN_RUNS.fullmatch(name)), default=None)
        if strange is not None or not self._members:
            raise Refused(
                f"{self.path} has no manifest.json, so it should be a zip of run files (*.jsonl) alone, and it has "
                f"{'nothing in it' if strange is None else repr(strange)}."
            )


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """Open a bundle for reading. Raises Refused if it is not safe to read."""
    with open_file(path) as file:
        yield Bundle(path, file)


def open_file(path: Path) -> BinaryIO:
    """Open the file of a bundle. Raises Refused if it is unreadable or not a regular file; a pipe does not block."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except IsADirectoryError as error:
        raise Refused(f"{path} is a folder; a bundle is a single zip file.") from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Refused(f"{path} is a pipe or another special file; a bundle is a regular zip file.")
    return file
