"""What many runs share is checked once, and spelt once for their hashes.

A line of a run file says again what the lines before it said: the machine, its settings, the software, the experiment.
Where these are known, only the rest of a line is read, into a struct. Where that says no, the model is asked of all.
"""

from __future__ import annotations

import marshal
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import DecodeError, Raw
from msgspec.json import Decoder
from msgspec.structs import asdict
from pydantic_core import from_json

from tmflow.runfile import content_hash, record
from tmflow.runfile.record import Run
from tmflow.runfile.structs import rules_of, struct_of

ORIGIN = ("backend", "campaign", "environment", "experiment", "platform", "software")
SPEC = ("spec",)
REMEMBERED_BYTES = 8 << 20  # a study has half a megabyte; each line of a stranger may have what no other has


_NO_LISTS: dict[str, Any] = {name: [] for name in content_hash.LISTS}
_RULES = rules_of(record.Run)


@dataclass(frozen=True, eq=False)
class Shared:
    """Fields of runs, checked, and their texts in the hashes. Where they are the same, it is the same object.

    `run` is the first that has them, without its lists, which may be long.
    """

    run: record.Run
    fields: dict[str, Any]
    spelt: dict[str, Raw]


class ReadRun(NamedTuple):
    """A run, checked, without its lists, and what it shares with others. `lists`: by name those that are not empty."""

    run: record.Run
    lists: dict[str, Sequence[Any]]
    origin: Shared
    spec: Shared


class Reader:
    """Reads lines of run files and remembers what they share."""

    def __init__(self, check_origin: Callable[[record.Run, str], None]) -> None:
        self._check_origin = check_origin
        self._shared: dict[bytes, Shared] = {}
        self._parts = Parts((*ORIGIN, *SPEC))
        self._rest = Decoder(struct_of(record.Run, (*ORIGIN, *SPEC)))
        self._by_text: dict[tuple[str, ...], Shared] = {}
        self._remembered = 0

    def read(self, line: str, where: str) -> ReadRun:
        """What a line says, which `where` names in errors: its origin is `ORIGIN` (whose and where).

        Raises BadInput for a bad line.
        """
        cut = self._parts.cut(line)
        if cut is not None:
            origin, spec = (self._by_text.get(texts) for texts in _texts(cut))
            if (
                origin is not None
                and spec is not None
                and (run := self._read_remembered(cut, origin, spec)) is not None
            ):
                return run
        return self._read_whole(line, where, cut)

    def _read_remembered(self, cut: Cut, origin: Shared, spec: Shared) -> ReadRun | None:
        """What a line with these parts says; None if they were not what they seemed, or the model is to be asked."""
        try:
            fields = asdict(self._rest.decode(cut.rest))
            if not self._parts.are_cut_out(fields):
                return None
            lists = _lists(fields)
            machine = fields["machine"] and record.MachineState.model_validate(asdict(fields["machine"]))
            values = fields | _NO_LISTS | origin.fields | spec.fields | {"machine": machine}
            run = origin.run.model_copy(update=values)
            for rule in _RULES:
                rule(run)
        except (DecodeError, ValueError):
            return None
        return ReadRun(run, lists, origin, spec)

    def _read_whole(self, line: str, where: str, cut: Cut | None) -> ReadRun:
        fields = record.decoded(line, where)
        # Not compared by ==, for which true is 1 and 1.0: the bytes tell them apart.
        keys = [marshal.dumps([fields.get(name) for name in names], 2) for names in (ORIGIN, SPEC)]
        for key in keys:
            if key in self._shared:
                fields |= self._shared[key].fields
        run = record.checked(fields, where)
        if keys[0] not in self._shared:
            self._check_origin(run, where)
        origin, spec = (
            self._shared.get(key) or self._remember(key, run, names)
            for key, names in zip(keys, (ORIGIN, SPEC), strict=True)
        )
        if cut is not None:
            self._remember_texts(cut, keys, (origin, spec))
        return ReadRun(run.model_copy(update=_NO_LISTS), _lists(vars(run)), origin, spec)

    def _remember(self, key: bytes, run: record.Run, names: tuple[str, ...]) -> Shared:
        fields = {name: getattr(run, name) for name in names}
        spelt = {
            name: content_hash.spelled(value)
            for name, value in fields.items()
            if name in content_hash.hashed_fields(run)
        }
        self._make_room(len(key))
        return self._shared.setdefault(key, Shared(run.model_copy(update=_NO_LISTS), fields, spelt))

    def _remember_texts(self, cut: Cut, keys: list[bytes], shared: tuple[Shared, Shared]) -> None:
        """Next time, these texts need not be decoded: they say what the line says, by themselves too."""
        for texts, key, part in zip(_texts(cut), keys, shared, strict=True):
            values = self._parts.values(texts)
            if texts not in self._by_text and values is not None and marshal.dumps(values, 2) == key:
                self._make_room(sum(map(len, texts)))
                self._by_text[texts] = part

    def _make_room(self, n_bytes: int) -> None:
        """Before so much more is remembered."""
        self._remembered += n_bytes
        if self._remembered > REMEMBERED_BYTES:
            self._remembered = n_bytes
            self._shared.clear()
            self._by_text.clear()


def _lists(fields: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    return {name: entries for name in content_hash.LISTS if (entries := fields[name])}


def _texts(cut: Cut) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of the origin and that of the spec."""
    return cut.texts[: len(ORIGIN)], cut.texts[len(ORIGIN) :]


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

    def are_cut_out(self, fields: Mapping[str, Any]) -> bool:
        """Whether a line without its parts has the words where the parts are to be."""
        return bool(self._values_of(fields) == self._words)

    def values(self, texts: Sequence[str]) -> list[Any] | None:
        """What parts say, each by itself; None if one of them is not a whole JSON value."""
        try:
            return [from_json(text, allow_inf_nan=False) for text in texts]
        except ValueError:
            return None
