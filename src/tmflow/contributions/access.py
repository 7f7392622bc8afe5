"""Who may upload, and who may decide: whoever gives the token that the environment holds."""

from __future__ import annotations

import hmac
import os
from enum import StrEnum

from tmflow.base.errors import BadInput
from tmflow.contributions import rates
from tmflow.contributions.quarantine import Quarantine

SHORTEST = 16


class Role(StrEnum):
    """Each by the variable of its token."""

    UPLOADER = "TMFLOW_UPLOAD_TOKEN"
    MAINTAINER = "TMFLOW_MAINTAINER_TOKEN"


_OFF = {Role.UPLOADER: "uploads are off", Role.MAINTAINER: "nothing can be decided on a page"}


def is_on(role: Role) -> bool:
    """Whether the portal lets anybody do it: only with a token that is good for it."""
    return _token(role) != b"" and trouble(role) is None


def trouble(role: Role) -> str | None:
    """Why its token is not used, as one sentence; None of one that is, or where there is none."""
    token = _token(role)
    if 0 < len(token) < SHORTEST:
        return f"{role} has {len(token)} bytes, and at least {SHORTEST} are needed: {_OFF[role]}."
    if role is Role.MAINTAINER and token and hmac.compare_digest(token, _token(Role.UPLOADER)):
        return f"{role} is the same as {Role.UPLOADER.value}, so that whoever uploads could accept: {_OFF[role]}."
    return None


def admit(quarantine: Quarantine, role: Role, given: str, by: str) -> None:
    """Let whoever gives the right token pass. Raises BadInput for a wrong one, and after too many of them."""
    refused: BadInput | None
    with quarantine.begin() as connection:
        refused = rates.refusal(quarantine, connection, rates.WRONG_TOKENS, by)
        if refused is None:
            right = is_on(role) and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), _token(role))
            quarantine.note(connection, "token", "right" if right else "wrong", by, details=role)
            refused = None if right else BadInput("this is not the token: ask whoever keeps this portal for it.")
    if refused:  # once what was tried is written down
        raise refused


def _token(role: Role) -> bytes:
    return os.environb.get(role.encode(), b"").strip()
