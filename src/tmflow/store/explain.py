"""What a driver says about a database that cannot be used, as one sentence for its user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError

from tmflow.base.errors import BadInput
from tmflow.store.url import is_sqlite, shown

_BUSY = "is locked: another writer held it all the while; try again when it is done."
_READ_ONLY = "is read-only; to write, this user needs the right to change it (for a SQLite file: and its folder)."
_FULL = "cannot grow: its disk is full; nothing of this was stored: make room, and run the same command again."
# SQLite reports a state in words only, PostgreSQL by SQLSTATE.
_SQLITE_WORDS = {
    "file is not a database": "is not a SQLite database; name another file, or move this one away.",
    "readonly database": _READ_ONLY,
    "database is locked": _BUSY,
    "unable to open database file": "cannot be opened: it is no file, or this user may not read it or its folder.",
}
_SQLITE_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")  # the second is an "I/O error" of its shared memory
_POSTGRESQL_STATES = {
    "25006": _READ_ONLY,
    "42501": "does not give this user the rights that this needs.",
    "55P03": _BUSY,
    "53100": _FULL,
}


@contextmanager
def explain_errors(url: URL) -> Iterator[None]:
    """Raise BadInput for a database that is unreachable, locked, read-only, damaged or no database at all.

    Other errors of the driver (a violated constraint, wrong SQL) are faults of the program and pass unchanged.
    """
    try:
        yield
    except DBAPIError as error:
        explanation = _sqlite_state(error) if is_sqlite(url) else _postgresql_state(error)
        if explanation is None:
            raise
        sentence = f"{shown(url)} {explanation}"
        raise BadInput(sentence.replace(str(url.password), "***") if url.password else sentence) from error


def _sqlite_state(error: DBAPIError) -> str | None:
    text = str(error.orig)
    if getattr(error.orig, "sqlite_errorname", None) in _SQLITE_FULL:
        return _FULL
    for words, explanation in _SQLITE_WORDS.items():
        if words in text:
            return explanation
    return None if isinstance(error, IntegrityError | ProgrammingError) else f"cannot be used: {text}."


def _postgresql_state(error: DBAPIError) -> str | None:
    state = getattr(error.orig, "sqlstate", None)
    if state in _POSTGRESQL_STATES:
        return _POSTGRESQL_STATES[state]
    if not isinstance(error, OperationalError):
        return None
    reason = str(error.orig).strip().splitlines()[0].rstrip(".")
    return f"cannot be reached or used: {reason}."
