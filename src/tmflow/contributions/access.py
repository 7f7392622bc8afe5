"""Access control: the tokens for uploads and decisions, and limits on rates and sizes."""

from __future__ import annotations

import hmac
import os
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from tmflow.base.clock import utc_text
from tmflow.base.errors import BadInput
from tmflow.contributions.quarantine import Action, Audit, Quarantine

SHORTEST = 16


class Role(StrEnum):
    """The roles, by the environment variable of their token."""

    UPLOADER = "TMFLOW_UPLOAD_TOKEN"
    MAINTAINER = "TMFLOW_MAINTAINER_TOKEN"


_OFF = {Role.UPLOADER: "uploads are off", Role.MAINTAINER: "nothing can be decided on a page"}


def is_on(role: Role) -> bool:
    """Whether the portal enables a role: only if its token is valid."""
    return _token(role) != b"" and token_problem(role) is None


def token_problem(role: Role) -> str | None:
    """The reason why a role's token is unusable, as a sentence; None if it is usable or not set."""
    token = _token(role)
    if 0 < len(token) < SHORTEST:
        return f"{role} has {len(token)} bytes, and at least {SHORTEST} are needed: {_OFF[role]}."
    if role is Role.MAINTAINER and token and hmac.compare_digest(token, _token(Role.UPLOADER)):
        return f"{role} is the same as {Role.UPLOADER.value}, so that uploaders could accept: {_OFF[role]}."
    return None


def check_token(quarantine: Quarantine, role: Role, given: str, by: str) -> None:
    """Check a token. Raises BadInput if it is wrong, and after too many wrong tokens."""
    with quarantine.begin() as connection:
        refused = refusal(quarantine, connection, WRONG_TOKENS, by)
        if refused is None:
            right = is_on(role) and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), _token(role))
            quarantine.note(connection, "token", "right" if right else "wrong", by, details=role)
            refused = None if right else BadInput("this is not the token: ask the portal's maintainers for it.")
    if refused:  # after the attempt was recorded
        raise refused


def _token(role: Role) -> bytes:
    return os.environb.get(role.encode(), b"").strip()


MIB = 1 << 20
UPLOAD_MIB = 64  # Streamlit holds an upload in memory
MOST_RUNS = 100_000
MOST_WAITING = 20  # so that at most 1.3 GB wait
_ADVICE = "export less at once, or have it stored with `tmflow bundle import`."
CHECK_S = 120.0  # MOST_RUNS took 46 s on a busy machine (docs/uploads.md)


def require_size(n_bytes: int) -> None:
    """Raise BadInput for a file that is too large."""
    if n_bytes > UPLOAD_MIB * MIB:
        raise BadInput(f"the file is larger than {UPLOAD_MIB} MiB, the most that the quarantine takes: {_ADVICE}")


def require_runs(n_runs: int) -> None:
    """Raise BadInput for a bundle of too many runs."""
    if n_runs > MOST_RUNS:
        raise BadInput(f"the bundle has {n_runs:,} runs, and the quarantine takes at most {MOST_RUNS:,}: {_ADVICE}")


def require_room(n_waiting: int) -> None:
    """Raise BadInput if too many bundles wait."""
    if n_waiting >= MOST_WAITING:
        raise BadInput(
            f"the quarantine is full: {n_waiting} bundles wait for a maintainer already; try again when some are "
            "decided."
        )


EVERYBODY = "everybody"


class Rate(NamedTuple):
    """A rate limit on an action with an outcome, per address and in total; `what` names it in messages."""

    what: str
    action: Action
    outcome: str
    of_one: int
    of_all: int
    minutes: int


WRONG_TOKENS = Rate("wrong tokens", "token", "wrong", of_one=5, of_all=50, minutes=15)
UPLOADS = Rate("uploads", "receive", "begun", of_one=10, of_all=60, minutes=60)


def refusal(quarantine: Quarantine, connection: Connection, rate: Rate, by: str) -> BadInput | None:
    """The error for an address that exceeds a rate limit, or for all if the total does; None otherwise.

    It is recorded once per period and address, so that repeated attempts do not fill the disk.
    """
    since = utc_text(quarantine.now() - timedelta(minutes=rate.minutes))
    tried = select(func.count()).where(Audit.action == rate.action, Audit.outcome == rate.outcome, Audit.at_utc > since)
    if connection.execute(tried).scalar_one() >= rate.of_all:
        whose, limit = EVERYBODY, rate.of_all
    elif connection.execute(tried.where(Audit.by == by)).scalar_one() >= rate.of_one:
        whose, limit = by, rate.of_one
    else:
        return None
    noted = select(Audit.id).where(
        Audit.action == "limit", Audit.outcome == rate.what, Audit.by == whose, Audit.at_utc > since
    )
    if connection.scalar(noted) is None:
        quarantine.note(connection, "limit", rate.what, whose)
    of_whom = "in all" if whose == EVERYBODY else f"from {by}"
    return BadInput(
        f"there were too many {rate.what} {of_whom}: at most {limit} in {rate.minutes} minutes; try again later."
    )
