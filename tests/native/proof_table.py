"""Write the tables of docs/proofs.md from the output of the explorer: `make proofs`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tmflow.base.paths import project_root

DOCS = project_root() / "docs" / "proofs.md"

_RUN = re.compile(r"^(?:\d+: )?\[ RUN +\] (?P<suite>[\w/]+)\.")
_PROGRAM = re.compile(
    r"^(?:\d+: )?(?P<name>\S.*?) +(?P<interleavings>\d+) interleavings, +(?P<redundant>\d+) redundant,"
)
_LIMIT = 1_000_000  # of searches that are cut off


class Explored(NamedTuple):
    suite: str
    name: str
    interleavings: int
    redundant: int

    @property
    def is_seeded(self) -> bool:
        return self.suite.startswith("Seeded") or self.name.startswith("nolock")

    @property
    def row(self) -> str:
        if self.is_seeded:
            return f"| {self.name} | {self.interleavings:,} |"
        strategy, program = self.name.split(", ", 1)
        memory = "late" if "Late" in self.suite else "sequential"
        when = "deep" if self.suite.startswith("Deep") else ""
        cut_off = self.interleavings + self.redundant == _LIMIT
        explored = f"the first {self.interleavings:,}" if cut_off else f"{self.interleavings:,}"
        return f"| `{strategy}` | {program} | {memory} | {explored} | {when} |"


def programs(lines: Iterable[str]) -> list[Explored]:
    """The explored programs, in order, from the output of explore_tests."""
    found, suite = [], ""
    for line in lines:
        if run := _RUN.match(line):
            suite = run["suite"]
        elif program := _PROGRAM.match(line):
            found.append(Explored(suite, program["name"], int(program["interleavings"]), int(program["redundant"])))
    return found


def rows(explored: Iterable[Explored]) -> list[str]:
    """One row for each program, in alphabetical order."""
    return sorted(program.row for program in explored)


def with_tables(text: str, explored: list[Explored]) -> str:
    """The text with the rows between its markers replaced."""
    for marker, seeded in (("explored", False), ("seeded", True)):
        head, _, rest = text.partition(f"<!-- {marker}: make proofs -->\n")
        old, end, tail = rest.partition(f"<!-- end of {marker} -->")
        if not end:
            raise ValueError(f"{DOCS.name} has no table {marker}")
        titles = old.strip().splitlines()[:2]
        table = "\n".join([*titles, *rows(program for program in explored if program.is_seeded == seeded)])
        text = f"{head}<!-- {marker}: make proofs -->\n\n{table}\n\n{end}{tail}"
    return text


def is_deep(row: str) -> bool:
    """Whether the row belongs to a program that only the deep tests explore."""
    return row.endswith("| deep |")


def documented_rows() -> list[str]:
    """The rows of both tables of the docs."""
    found = []
    for marker in ("explored", "seeded"):
        table = DOCS.read_text().partition(f"<!-- {marker}: make proofs -->")[2].partition("<!-- end of")[0]
        found += table.strip().splitlines()[2:]
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.native.proof_table", description=__doc__)
    parser.add_argument("output", type=Path, help="the file that holds what explore_tests printed")
    file = parser.parse_args().output
    explored = programs(file.read_text().splitlines())
    if not explored:
        parser.error(f"{file} has nothing that explore_tests prints")
    DOCS.write_text(with_tables(DOCS.read_text(), explored))


if __name__ == "__main__":
    main()
