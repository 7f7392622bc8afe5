"""Reading the small text files through which Linux describes the machine; what cannot be read is None."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Files:
    """The files under `root`: the real ones, or a recorded tree of another machine. Paths are relative to it."""

    root: Path = Path("/")

    def data(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return None

    def text(self, path: str) -> str | None:
        """The content without the white space (and the NUL of the device tree) around it; None if empty, too."""
        data = self.data(path)
        return None if data is None else data.decode(errors="replace").strip(" \t\n\0") or None

    def integer(self, path: str) -> int | None:
        text = self.text(path)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None

    def size(self, path: str) -> int | None:
        """A size or count of hardware as the kernel writes it (48K, 2M, 64); its 0 means that it does not know."""
        match = re.fullmatch(r"(\d+)([KMG]?)", self.text(path) or "")
        return int(match[1]) * _UNITS[match[2]] or None if match else None

    def count(self, path: str) -> int | None:
        """How many numbers a list such as 0-3,8,10-11 names."""
        text = self.text(path)
        if text is None or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
            return None
        ranges = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return sum(part[-1] - part[0] + 1 for part in ranges)

    def glob(self, pattern: str) -> Iterator[str]:
        """The paths that match, in the order of their names."""
        return (str(path.relative_to(self.root)) for path in sorted(self.root.glob(pattern)))
