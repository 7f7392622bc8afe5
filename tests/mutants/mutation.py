"""Mutations: one-line faults that a test must catch, and the YAML files that list them."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, indent
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tmflow.base.documents import document, read_yaml
from tmflow.base.errors import BadInput

CPP_FOLDER = "native_ops"

Text = Annotated[str, StringConstraints(min_length=1)]


class StaleMutation(Exception):
    """The mutation does not apply to the current sources."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Catcher(_Closed):
    """The tests that must fail: pytest's node ids, or a regular expression for tests of a CMake target."""

    pytest: Annotated[list[Text], Field(min_length=1)] | None = None
    ctest: Text | None = None
    target: Text | None = None
    by: Literal["failure", "timeout", "crash"] = "failure"

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.pytest is None) == (self.ctest is None):
            raise ValueError("give either pytest or ctest")
        if (self.ctest is None) != (self.target is None):
            raise ValueError("ctest needs target, the CMake target to build, and pytest takes none")
        if self.ctest is not None:
            try:
                re.compile(self.ctest)
            except re.error as error:
                raise ValueError(f"ctest {self.ctest!r} is not a regular expression: {error}") from error
        return self

    def __str__(self) -> str:
        return " ".join(self.pytest) if self.pytest else f"{self.target}: {self.ctest}"


class Mutation(_Closed):
    """A fault: `new` replaces `old` in `file`. The tests of `caught_by` must fail; `why` is why it matters."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    file: Text
    old: Text
    new: str
    caught_by: Catcher
    why: Text
    topic: str  # the name of the YAML file

    @property
    def is_cpp(self) -> bool:
        return Path(self.file).parts[0] == CPP_FOLDER

    def apply(self, text: str) -> str:
        """The text of the file with the fault.

        `old` is either complete lines, whose common indentation is ignored and applied to `new`, or an exact part of
        the text. Raises StaleMutation unless it occurs exactly once.
        """
        lines = list(re.finditer(_whole_lines(self.old), text, re.MULTILINE))
        if len(lines) == 1:
            (match,) = lines
            return text[: match.start()] + indent(_lines(self.new), match["indent"]) + text[match.end() :]
        part = self.old.removesuffix("\n")
        count = len(lines) or text.count(part)
        if count != 1:
            raise StaleMutation(f"{self.file} has its old text {count} times, not once")
        return text.replace(part, self.new.removesuffix("\n"))

    def mutant_of(self, root: Path) -> str:
        """The mutated content of the file below `root`. Raises StaleMutation."""
        try:
            text = (root / self.file).read_text(encoding="utf-8")
        except OSError as error:
            raise StaleMutation(f"{self.file} cannot be read: {error.strerror}") from error
        mutant = self.apply(text)
        if mutant == text:
            raise StaleMutation(f"{self.file} is not changed: old and new are the same")
        return mutant


def _lines(text: str) -> str:
    dedented = dedent(text)
    return dedented if not dedented or dedented.endswith("\n") else f"{dedented}\n"


def _whole_lines(old: str) -> str:
    """A pattern for the lines of `old` with any common indentation, `indent`."""
    first, *rest = map(re.escape, _lines(old).splitlines())
    return rf"^(?P<indent>[ \t]*){first}" + "".join(rf"\n(?P=indent){line}" if line else r"\n" for line in rest) + r"\n"


def read_mutations(folder: Path) -> list[Mutation]:
    """All mutations in the YAML files of a folder, by file. Raises BadInput for an invalid list."""
    mutations: dict[str, Mutation] = {}
    for path in sorted(folder.glob("*.yaml")):
        entries = read_yaml(path)
        if not isinstance(entries, list):
            raise BadInput(f"{path.name} must be a list of mutations, not {type(entries).__name__}.")
        for number, entry in enumerate(entries, start=1):
            name = entry.get("id", number) if isinstance(entry, dict) else number
            where = f"{path.name}, mutation {name}"
            if isinstance(entry, dict) and "topic" in entry:
                raise BadInput(f"{where}: unknown key 'topic'; the name of the file is the topic.")
            mutation = document(Mutation, {**entry, "topic": path.stem} if isinstance(entry, dict) else entry, where)
            if mutation.id in mutations:
                raise BadInput(f"{where}: the id is taken, in {mutations[mutation.id].topic}.yaml.")
            mutations[mutation.id] = mutation
    return list(mutations.values())
