"""Errors that are part of the interface: one clear sentence, no traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

LONGEST = 100  # characters that are looked at, of a wrong name that may be as long as a file
LEAST_SIMILARITY = 0.65  # 'htn' is as like 'htm' as 0.67; 'mysql' is to 'sqlite' 0.55, and was not meant for it


class BadInput(Exception):
    """The user's input is wrong. The message is one sentence: what is wrong, where, and what is allowed."""


class Unsupported(Exception):
    """What was asked is valid but cannot run on this machine; the message says why."""


class PipelineFailed(Exception):
    """Snakemake ended with an error, which it has printed."""


class RoundFailed(Exception):
    """The process of a round ended without finishing it."""


class Diverged(Exception):
    """The training left the numbers: a trial without a result, and the message says where."""


def unknown(what: str, value: object, valid: Iterable[str]) -> BadInput:
    """A `BadInput` for a name that is not among the valid ones; suggests the nearest of them."""
    names = sorted(valid)
    return BadInput(f"unknown {what} '{value}'{hint(str(value), names)}; valid: {', '.join(names)}.")


def hint(wrong: str, names: Collection[str]) -> str:
    """Which of the names was probably meant, in parentheses after a blank; nothing where none is alike enough."""
    near = difflib.get_close_matches(wrong[:LONGEST], names, n=1, cutoff=LEAST_SIMILARITY)
    return f" (did you mean '{near[0]}'?)" if near else ""
