"""Fields of a line as they are spelt in it, cut out before it is decoded: what is known need not be decoded again.

Where a field ends is guessed from the order in which run files have their fields. The guess is checked: in the place of
each part stands a word that nobody can foresee, and only where the line without the parts has it as the value of the
very field, was the part the value of that field, for a part that is known is a whole JSON value.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json

from tmflow.runfile.record import Run


class Cut(NamedTuple):
    """The parts of a line, and the line with words in their places."""

    texts: tuple[str, ...]
    rest: str


class Parts:
    """Cuts fields, in alphabetical order, out of lines."""

    def __init__(self, fields: Sequence[str]) -> None:
        order = sorted(Run.model_fields)
        self._words = tuple(secrets.token_hex(16) for _ in fields)
        self._values_of = itemgetter(*fields)
        self._marks = [
            (f'"{field}": ', f', "{order[order.index(field) + 1]}": ', f'"{word}"')
            for field, word in zip(fields, self._words, strict=True)
        ]
        self._last = [""] * len(self._marks)  # a line most likely has the parts of the line before it

    def cut(self, line: str) -> Cut | None:
        """The parts of a line; None if it has not the order or the spelling of run files."""
        texts: list[str] = []
        pieces: list[str] = []
        at = 0
        for number, (begin, end, word) in enumerate(self._marks):
            start = line.find(begin, at) + len(begin)
            text = self._last[number]
            if not line.startswith(text, start) or not line.startswith(end, start + len(text)):
                stop = line.find(end, start)
                if start < len(begin) or stop < 0:
                    return None
                text = self._last[number] = line[start:stop]
            texts.append(text)
            pieces += (line[at:start], word)
            at = start + len(text)
        return Cut(tuple(texts), "".join((*pieces, line[at:])))

    def are_cut_out(self, told: Mapping[str, Any]) -> bool:
        """Whether a line without its parts has the words where the parts are to be."""
        return bool(self._values_of(told) == self._words)

    def values(self, texts: Sequence[str]) -> list[Any] | None:
        """What parts say, each by itself; None if one of them is not a whole JSON value."""
        try:
            return [from_json(text, allow_inf_nan=False) for text in texts]
        except ValueError:
            return None
