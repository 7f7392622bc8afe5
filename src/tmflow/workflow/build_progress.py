"""Progress of a running build, from Ninja's lines in its log."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NamedTuple

_FILES = re.compile(rb"^\[(\d+)/(\d+)\] ", re.MULTILINE)
_TAIL = 4_000  # bytes: the last lines


class Built(NamedTuple):
    """Files that are built, all files, and the estimated seconds for the remaining files (None: unknown)."""

    done: int
    total: int
    left_s: float | None

    def __str__(self) -> str:
        return f"{self.done} of {self.total} files"


def build_log(results: Path) -> Path:
    """The log of the build: the output of its tools."""
    return results / "logs" / "build.log"


class BuildProgress:
    """The progress of a build that starts after this object is created; an older log is ignored."""

    def __init__(self, results: Path) -> None:
        self._log = build_log(results)
        self._made_s = time.time()
        self._first: tuple[float, int] | None = None  # time and number of files at the first count

    def look(self) -> Built | None:
        """The state now; None until the first file is built."""
        try:
            with self._log.open("rb") as file:
                if self._log.stat().st_mtime < self._made_s:
                    return None
                file.seek(max(self._log.stat().st_size - _TAIL, 0))
                counts = _FILES.findall(file.read())
        except FileNotFoundError:
            return None
        if not counts:
            return None
        done, total = map(int, counts[-1])
        now_s = time.monotonic()
        if self._first is None or self._first[1] > done:
            self._first = (now_s, done)
        began_s, before = self._first
        rate = (done - before) / (now_s - began_s) if done > before else None
        return Built(done, total, None if rate is None else (total - done) / rate)
