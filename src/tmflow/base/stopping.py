"""Stopping: what a study has started ends with it, within seconds, whatever it is doing.

Nothing is asked to finish: a trial is on disk when it ends, and every file is whole or not there.
"""

from __future__ import annotations

import ctypes
import signal
import time
from contextlib import suppress

import psutil

GRACE_S = 2.0  # then what did not end when asked to is killed
GIVE_UP_S = 4.0
PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


class Stopped(Exception):
    """Somebody stopped a command; `code` is what a process ends with that the signal ended."""

    def __init__(self, said: str, cause: BaseException) -> None:
        super().__init__(said)
        self.code = int(cause.code or 0) if isinstance(cause, SystemExit) else 128 + signal.SIGINT


def adopt_orphans() -> None:
    """What a child leaves behind when it ends becomes this process's child, so that `end_children` finds it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """End all children and theirs: first they are asked to, then killed. Deaf to further signals meanwhile."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    began, asked = time.monotonic(), set[psutil.Process]()
    while (children := psutil.Process().children(recursive=True)) and time.monotonic() < began + GIVE_UP_S:
        for child in children:
            with suppress(psutil.NoSuchProcess):
                if time.monotonic() > began + GRACE_S:
                    child.kill()
                elif child not in asked:
                    child.terminate()
        asked.update(children)
        psutil.wait_procs(children, timeout=0.2)
    for number, handler in before.items():
        signal.signal(number, handler)
