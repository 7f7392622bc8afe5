"""Errors that are part of the interface: one clear sentence, no traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BadInput(Exception):
    """The user's input is wrong. The message is one sentence: what is wrong, where, and what is allowed."""


class Unsupported(Exception):
    """What was asked is valid but cannot run on this machine; the message says why."""


class Diverged(Exception):
    """The training left the numbers: a trial without a result, and the message says where."""


def unknown(what: str, value: object, valid: Iterable[str]) -> BadInput:
    """A `BadInput` for a name that is not among the valid ones; suggests the nearest of them."""
    names = sorted(valid)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return BadInput(f"unknown {what} '{value}'{hint}; valid: {', '.join(names)}.")
