"""Errors that are part of the interface: one clear sentence, no traceback, exit code 2."""

from __future__ import annotations

import difflib
import errno
import os
import signal
from collections.abc import Collection, Iterable

LONGEST = 100  # characters of a wrong name that are compared: the name may be as long as a file
LEAST_SIMILARITY = 0.65  # 'htn' and 'htm' have 0.67; 'mysql' and 'sqlite', which nobody confuses, have 0.55

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors of the disk or of permissions, never caused by a bug.
_OF_THE_USER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.ENAMETOOLONG)


class BadInput(Exception):
    """The user's input is wrong. The message is one sentence: what is wrong, where, and what is allowed."""


class Unsupported(Exception):
    """The request is valid but cannot run on this machine; the message says why."""


class PipelineFailed(Exception):
    """Snakemake ended with an error, which it printed."""


class RoundFailed(Exception):
    """The process of a round ended without finishing it."""


class Diverged(Exception):
    """The training diverged to NaN or infinity: a trial without a result. The message says where."""


class Stopped(Exception):
    """A signal stopped a command; `code` is the exit code for that signal."""

    def __init__(self, message: str, cause: BaseException) -> None:
        super().__init__(message)
        self.code = int(cause.code or 0) if isinstance(cause, SystemExit) else 128 + signal.SIGINT


def unknown(what: str, value: object, valid: Iterable[str]) -> BadInput:
    """A `BadInput` for a name that is not valid; suggests the nearest valid name."""
    names = sorted(valid)
    return BadInput(f"unknown {what} '{value}'{hint(str(value), names)}; valid: {', '.join(names)}.")


def hint(wrong: str, names: Collection[str]) -> str:
    """The most similar name as a suggestion in parentheses, with a leading space; empty if none is similar."""
    near = difflib.get_close_matches(wrong[:LONGEST], names, n=1, cutoff=LEAST_SIMILARITY)
    return f" (did you mean '{near[0]}'?)" if near else ""


def refusal(error: OSError) -> str | None:
    """The message for an error of the user's disk or permissions; None for a bug."""
    if error.errno not in (*DISK_FULL, *_OF_THE_USER) or not isinstance(error.filename, str | bytes):
        return None
    return f"{shortened(os.fsdecode(error.filename))} cannot be used: {error.strerror}."


def shortened(path: str) -> str:
    """A path for a message; only the beginning of a path that is too long to exist."""
    return path if len(path) <= 4 * LONGEST else f"{path[:LONGEST]}..."
