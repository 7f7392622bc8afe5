"""JSON of a stranger: decoded in bounded depth, and only to what a hash can be taken of."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from tmflow.base.canonical_json import canonical_json
from tmflow.bundle import format
from tmflow.bundle.refused import Refused


def require_few_parts(text: str, where: str) -> None:
    """Raise Refused for so many lists, objects or fields that they or the errors in them would fill the memory."""
    if len(text) <= format.MAX_PARTS:
        return
    n = text.count("[") + text.count("{")
    if n > format.MAX_PARTS:
        raise Refused(f"{where} has {n} lists and objects; the most allowed is {format.MAX_PARTS}.")
    if (n := text.count(":")) > format.MAX_FIELDS:
        raise Refused(f"{where} has {n} fields, or colons; the most allowed is {format.MAX_FIELDS}.")


def decoded(data: bytes, where: str) -> dict[str, Any]:
    """The object that a JSON document is. Raises Refused if it is none."""
    try:
        text = data.decode()
        require_few_parts(text, where)
        value = from_json(text, allow_inf_nan=False)  # bounds the depth, and the digits of a number
        canonical_json(value)  # 1e400 is read as infinite
    except ValueError as error:
        raise Refused(f"{where} is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Refused(f"{where} is not a JSON object.")
    return value
