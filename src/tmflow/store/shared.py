"""What many runs share is checked once, and spelt once for their hashes.

A line of a run file says again what the lines before it said: the machine, its settings, the software, the experiment.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tmflow.runner import content, runfile

ORIGIN = ("campaign", "environment", "experiment", "platform", "software")
SPEC = ("spec",)


@dataclass(frozen=True, eq=False)
class Shared:
    """Fields of runs, checked, and their texts in the hashes. Where they are the same, it is the same object.

    `run` is the first that has them.
    """

    run: runfile.Run
    fields: dict[str, Any]
    spelt: dict[str, str]


class Reader:
    """Reads lines of run files and remembers what they share."""

    def __init__(self, check_origin: Callable[[runfile.Run, str], None]) -> None:
        self._check_origin = check_origin
        self._known: dict[bytes, Shared] = {}

    def read(self, line: str, where: str) -> tuple[runfile.Run, Shared, Shared]:
        """The run of a line, which `where` names in errors, and its origin (`ORIGIN`: whose and where) and its spec.

        Raises BadInput for a bad line.
        """
        told = runfile.decoded(line, where)
        # Not compared by ==, for which true is 1 and 1.0: the bytes tell them apart.
        keys = [marshal.dumps([told.get(name) for name in names], 2) for names in (ORIGIN, SPEC)]
        for key in keys:
            if key in self._known:
                told |= self._known[key].fields
        run = runfile.checked(told, where)
        if keys[0] not in self._known:
            self._check_origin(run, where)
        origin, spec = (
            self._known.get(key) or self._remember(key, run, names)
            for key, names in zip(keys, (ORIGIN, SPEC), strict=True)
        )
        return run, origin, spec

    def _remember(self, key: bytes, run: runfile.Run, names: tuple[str, ...]) -> Shared:
        fields = {name: getattr(run, name) for name in names}
        spelt = {name: content.spelled(value) for name, value in fields.items()}
        return self._known.setdefault(key, Shared(run, fields, spelt))
