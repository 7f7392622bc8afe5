"""JSON that the database holds as text."""

from __future__ import annotations

import json
from typing import Any

from tmflow.base.errors import BadInput

_ADVICE = "restore a backup, or make the database anew from the run files (`tmflow ingest`)"


_NAMED = 200  # characters of what the text belongs to: a name in a database may have any length


def parse_object(text: str, what: str) -> dict[str, Any]:
    """The object that a text of the database is. Raises BadInput where it is none; `what` names it."""
    what = what if len(what) <= _NAMED else f"{what[:_NAMED]}..."
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{what} is no JSON in the database: {_ADVICE}.") from error
    if not isinstance(document, dict):
        raise BadInput(f"{what} is no JSON object in the database: {_ADVICE}.")
    return document
