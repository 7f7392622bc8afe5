"""Helpers of the quarantine tests: a controllable clock, an uploaded bundle, and a kill at every step."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from tmflow.contributions import quarantine as listed
from tmflow.contributions import staging
from tmflow.contributions.quarantine import Quarantine
from tmflow.contributions.staging import Staged
from tmflow.store import engine

ADDRESS = "192.0.2.1"


@dataclass
class Clock:
    """A clock that shows the time it was set to."""

    time: datetime = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def forward(self, **much: float) -> None:
        self.time += timedelta(**much)


def study_beside(quarantine: Quarantine) -> URL:
    """The database beside the quarantine; it need not exist."""
    return engine.sqlite_url(quarantine.folder.with_name("study.db"))


def staged(quarantine: Quarantine, bundle: Path, by: str = ADDRESS) -> Staged:
    with bundle.open("rb") as source:
        return staging.stage(quarantine, source, bundle.name, by, study_beside(quarantine))


def done(quarantine: Quarantine) -> list[tuple[str, str, str]]:
    """Action, outcome and actor of each entry of the audit."""
    return [(row["action"], row["outcome"], row["by"]) for row in listed.audit(quarantine, 1000)]


def files(quarantine: Quarantine) -> set[str]:
    """The files in the quarantine, without its lock and its database."""
    names = {path.name for path in quarantine.folder.iterdir()}
    return {name for name in names if name != ".lock" and not name.startswith("quarantine.db")}


def killed_at_every_step(folder: Path, act: Callable[[], object]) -> Iterator[int]:
    """Call `act` in processes that are killed before their first, second, ... access to the folder's files. Yield the
    number of each kill, until a process finishes.
    """
    for step in range(1, 1000):
        child = os.fork()
        if child == 0:
            _act_until(step, str(folder), act)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield step


def _act_until(step: int, folder: str, act: Callable[[], object]) -> None:
    touched = 0

    def touch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal touched
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect") and folder in str(arguments):
            touched += 1
            if touched == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(touch)
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)
