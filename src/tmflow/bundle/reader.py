"""Reads bundles: nothing is trusted before it is checked, and a bundle is never entirely in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tmflow.bundle import format, zip_reader
from tmflow.bundle import format as listed
from tmflow.bundle import format as manifest
from tmflow.bundle.format import Entry, Refused, decode_object
from tmflow.bundle.problems import Problem
from tmflow.bundle.zip_reader import Member


class Bundle:
    """An open bundle whose members match its manifest; their bytes are checked while they are read.

    identity: hex SHA-256 of the manifest, whose bytes are `manifest_text`. version: the version of the format; 0 is a
    zip of run files without a manifest. signature: the unchecked signature of the manifest; None if unsigned.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._members = {member.name: member for member in zip_reader.members(file, path)}
        if format.MANIFEST in self._members:
            self.version, data = format.VERSION, self._bytes(self._members[format.MANIFEST])
            self.manifest = listed.parse(data, self.where(format.MANIFEST))
            self._require_listed()
            self.signature = self._signature()
        else:
            self.version = format.PLAIN
            self._require_run_files()
            self.manifest = tuple(sorted(map(self._entry, self._members.values())))
            data = manifest.text(self.manifest, self.version)
            self.signature = None
        self.manifest_text = data
        self.identity = manifest.identity(data)
        self._entries = {entry.path: entry for entry in self.manifest}

    def where(self, member: str) -> str:
        """Name a member for an error message."""
        return f"{self.path}, {member}"

    def problem(self, member: str, error: Refused) -> Problem:
        """The problem of a member, without repeating its name."""
        message, where = str(error), self.where(member)
        return Problem(
            member, None, None, None, f"it{message.removeprefix(where)}" if message.startswith(where) else message
        )

    def run_members(self) -> list[str]:
        """The names of the run files, in order."""
        return [entry.path for entry in self.manifest if format.is_run_file(entry.path)]

    def document(self, name: str) -> dict[str, Any] | None:
        """A JSON document (one of `format.DOCUMENTS`); None if absent. Raises Refused if it is wrong."""
        return decode_object(b"".join(self.chunks(name)), self.where(name)) if name in self._entries else None

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a member in chunks. Raises Refused, possibly at the end, if the manifest disagrees."""
        entry, sha256, n_bytes = self._entries[name], hashlib.sha256(), 0
        for chunk in zip_reader.read(self._file, self._members[name], self.where(name)):
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

    def _bytes(self, member: Member) -> bytes:
        return b"".join(zip_reader.read_by_crc(self._file, member, self.where(member.name)))

    def _signature(self) -> bytes | None:
        member = self._members.get(format.SIGNATURE)
        return None if member is None else self._bytes(member)

    def _entry(self, member: Member) -> Entry:
        sha256 = hashlib.sha256()
        for chunk in zip_reader.read_by_crc(self._file, member, self.where(member.name)):
            sha256.update(chunk)
        return Entry(member.name, member.bytes, sha256.hexdigest())

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
    try:
        if path.is_fifo() or path.is_char_device():  # opening it would block until a writer appears
            raise Refused(f"{path} is not a file.")
        file = path.open("rb")
    except IsADirectoryError as error:
        raise Refused(f"{path} is a folder; name the bundle in it, one zip.") from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from error
    with file:
        yield Bundle(path, file)
