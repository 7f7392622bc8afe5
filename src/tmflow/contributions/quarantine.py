"""Where the quarantine is, and who may change what is in it: one at a time."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, insert, select

from tmflow.base import clock
from tmflow.base.errors import BadInput
from tmflow.base.files import writing
from tmflow.base.paths import results_dir
from tmflow.contributions import tables
from tmflow.contributions.tables import Action, Audit, Upload
from tmflow.store.engine import sqlite_url, writer_engine
from tmflow.store.explain import explain_errors

VARIABLE = "TMFLOW_QUARANTINE_DIR"
PATIENCE_S = 60.0  # for whoever else is at it
LONGEST = 2000  # characters of a text that is written down
RECEIVED = "received.tmp"  # a bundle that comes in just now
_BUNDLE = re.compile(r"[0-9a-f]{64}\.zip")


def folder() -> Path:
    """The quarantine's folder: $TMFLOW_QUARANTINE_DIR, else quarantine/ in that of the results."""
    override = os.environ.get(VARIABLE)
    return Path(override).expanduser().absolute() if override else results_dir() / "quarantine"


@dataclass(frozen=True)
class Quarantine:
    """The folder with the staged bundles, `<identity>.zip`, and quarantine.db; `now` tells the time."""

    folder: Path
    now: Callable[[], datetime] = clock.now
    patience_s: float = PATIENCE_S

    def file(self, identity: str) -> Path:
        """Where the bundle of that identity lies."""
        return self.folder / f"{identity}.zip"

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction, the only one that writes; folder and tables are made when they are first used.

        Raises BadInput where the folder cannot be written.
        """
        self._make_folder()
        url = sqlite_url(self.folder / "quarantine.db")
        with explain_errors(url), writer_engine(url).begin() as connection:
            tables.make(connection)
            yield connection

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of all who add or decide, having cleared away what a kill left of somebody before.

        The kernel releases it when its holder ends, however it ends. Raises BadInput where it is not to be had in time.
        """
        self._make_folder()
        with writing(self.folder):
            lock = os.open(self.folder / ".lock", os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            self._take(lock)
            self._clear()
            yield
        finally:
            os.close(lock)

    def note(
        self,
        connection: Connection,
        action: Action,
        outcome: str,
        by: str,
        identity: str | None = None,
        details: str | None = None,
    ) -> None:
        """Write an action down."""
        row = {"action": action, "outcome": outcome, "by": by[:LONGEST], "identity": identity}
        row |= {"at_utc": clock.utc_text(self.now()), "details": details and details[:LONGEST]}
        connection.execute(insert(Audit), [row])

    def _make_folder(self) -> None:
        """For its owner alone: what waits is not published, and the audit has addresses of people."""
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _take(self, lock: int) -> None:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise BadInput(
                        f"another bundle has been checked or stored for more than {self.patience_s:g} s, and one is at "
                        "a time: try again when it is done."
                    ) from error
                time.sleep(0.05)

    def _clear(self) -> None:
        """Remove what no upload is of, or one that was rejected."""
        with self.begin() as connection:
            kept = set(connection.scalars(select(Upload.identity).where(Upload.state != "rejected")))
        for file in self.folder.iterdir():
            if file.name == RECEIVED or (_BUNDLE.fullmatch(file.name) and file.stem not in kept):
                file.unlink()
