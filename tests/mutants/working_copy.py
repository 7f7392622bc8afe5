"""A copy of the checkout for mutations; the checkout itself is only read."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WorkingCopy:
    """The files of the checkout at `root` that git tracks or does not ignore, in `folder`/tree.

    The copy is kept: next time only changed files are written, so builds in it are incremental.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder, self.tree = root, folder, folder / "tree"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The updated copy, locked against other processes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._update()
            yield

    def _update(self) -> None:
        names = self._names()
        noted = self.folder / "files"
        before = set(noted.read_text(encoding="utf-8").split("\0")) if noted.exists() else set()
        noted.write_text("\0".join(sorted(before | names)), encoding="utf-8")  # so that no copied file is forgotten
        for name in before - names - {""}:
            (self.tree / name).unlink(missing_ok=True)
        for name in names:
            source, copy = self.root / name, self.tree / name
            if copy.is_file() and copy.read_bytes() == source.read_bytes():
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)  # with the current time, for builds that compare times
        noted.write_text("\0".join(sorted(names)), encoding="utf-8")

    def _names(self) -> set[str]:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=self.root, check=True, capture_output=True)
        return {name for name in os.fsdecode(listed.stdout).split("\0") if name and (self.root / name).is_file()}

    @contextmanager
    def with_content(self, name: str, text: str) -> Iterator[None]:
        """The copy with one file changed; the file is always restored afterwards.

        If even that fails, the next `opened` restores it.
        """
        file = self.tree / name
        good = file.read_bytes()
        try:
            file.write_text(text, encoding="utf-8")
            yield
        finally:
            file.write_bytes(good)
