"""Pydantic's errors in one sentence: where, what is wrong, what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from pydantic import ValidationError

from tmflow.errors import BadInput


def sentence(error: ValidationError, where: str, keys: Collection[str] = ()) -> BadInput:
    """The first thing that `error` found, as a `BadInput`.

    `where` names the document ("config.yaml", "tmflow train"); `keys` are the valid keys, for an unknown one.
    """
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    value = first.get("input")
    match first["type"]:
        case "extra_forbidden":
            key = str(first["loc"][-1])
            near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            valid = f"; valid: {', '.join(sorted(keys))}" if keys else ""
            return BadInput(f"{where}: unknown key '{path}'{hint}{valid}.")
        case "missing":
            return BadInput(f"{where}: '{path}' is missing.")
        case "value_error":
            prefix = f"{path}: " if path else ""
            return BadInput(f"{where}: {prefix}{first['ctx']['error']}.")
        case _:
            wish = first["msg"].removeprefix("Input ").removeprefix("Value ").rstrip(".")
            return BadInput(f"{where}: {path} is {value!r}, but {wish}.")
