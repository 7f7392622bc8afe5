"""Apply one mutation after another to a copy of the checkout, and report those that no test catches.

    python -m tests.mutants.run [--only ID ...] [--topic NAME ...] [--list]

Exits with 1 if a mutation survives, or if its test gave no answer.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.mutants.catching import Catching, End, Outcome
from tests.mutants.mutation import Catcher, Mutation, StaleMutation, read_mutations
from tests.mutants.working_copy import WorkingCopy
from tmflow.base.errors import BadInput, hint
from tmflow.base.paths import project_root
from tmflow.native.loader import library_dir

LISTS = Path("tests/mutants")
COPY = Path("build/mutants")  # git ignores it, and `make clean` removes it
SECONDS_MORE, TIMES_LONGER = 60, 10  # the limit in addition to what the tests take without the mutation


class Verdict(Enum):
    """The outcome of a mutation."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    STALE = "STALE"  # it does not apply
    NOT_BUILT = "NOT BUILT"  # the mutant does not compile, so no test ran
    NO_ANSWER = "NO ANSWER"  # its test fails without the mutation, did not run, or took too long
    SKIPPED = "skipped"  # its test cannot run on this machine


# The acceptable verdicts of a run over all mutations.
GOOD = (Verdict.CAUGHT, Verdict.SKIPPED)


@dataclass(frozen=True)
class Result:
    mutation: Mutation
    verdict: Verdict
    note: str = ""
    seconds: float = 0


def compare(good: Outcome, mutant: Outcome, catcher: Catcher) -> tuple[Verdict, str]:
    """The verdict on a mutant, from the tests without it (`good`) and with it."""
    expected = {"failure": End.FAILED, "timeout": End.TIMED_OUT, "crash": End.CRASHED}
    if mutant.end is expected[catcher.by]:
        return Verdict.CAUGHT, ""
    match mutant.end:
        case End.PASSED | End.SKIPPED:
            return Verdict.SURVIVED, f"the tests pass with it as without it ({good.seconds:.0f} s)"
        case End.NOT_BUILT:
            return Verdict.NOT_BUILT, last_line(mutant.output)
        case End.TIMED_OUT:
            note = f"no end after {mutant.seconds:.0f} s, which caught_by does not declare"
        case End.CRASHED:
            note = f"ended by signal {-mutant.code}, which caught_by does not declare"
        case End.FAILED:
            note = f"failed, where caught_by declares a {catcher.by}"
        case _:
            note = last_line(mutant.output)
    return Verdict.NO_ANSWER, note


def last_line(output: str) -> str:
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")


class Trial:
    """Judges mutations in a working copy. Mutations with the same tests share the run without a mutation."""

    def __init__(self, copy: WorkingCopy, catching: Catching) -> None:
        self._copy, self._catching = copy, catching
        self._good: dict[tuple[bool, str], Outcome] = {}

    def judge(self, mutation: Mutation) -> Result:
        try:
            mutant = mutation.mutant_of(self._copy.tree)
        except StaleMutation as error:
            return Result(mutation, Verdict.STALE, str(error))
        good = self._without(mutation)
        if good.end is End.SKIPPED:
            return Result(mutation, Verdict.SKIPPED, "the tests are skipped on this machine")
        if good.end is not End.PASSED:
            return Result(mutation, Verdict.NO_ANSWER, f"{good.end.value} without it: {last_line(good.output)}")
        with self._copy.with_content(mutation.file, mutant):
            outcome = self._catching.outcome(mutation, timeout=SECONDS_MORE + TIMES_LONGER * good.seconds)
        return Result(mutation, *compare(good, outcome, mutation.caught_by), outcome.seconds)

    def _without(self, mutation: Mutation) -> Outcome:
        key = mutation.is_cpp, str(mutation.caught_by)
        if key not in self._good:
            self._good[key] = self._catching.outcome(mutation)
        return self._good[key]


def judged(root: Path, mutations: Iterable[Mutation]) -> Iterator[Result]:
    """Judge mutations of the checkout at `root`, one after another."""
    copy = WorkingCopy(root, root / COPY)
    with copy.opened():
        trial = Trial(copy, Catching(copy, library_dir()))
        for mutation in mutations:
            yield trial.judge(mutation)


def line(result: Result) -> str:
    mutation, note = result.mutation, f"  {result.note}" if result.note else ""
    return (
        f"{result.verdict.value:<9}  {mutation.topic}/{mutation.id:<48} {result.seconds:5.0f} s  {mutation.file}{note}"
    )


def chosen(mutations: list[Mutation], ids: list[str], topics: list[str]) -> list[Mutation]:
    """The mutations with the named ids and topics (default: all). Raises BadInput for an unknown name."""
    for names, known in (ids, {m.id for m in mutations}), (topics, {m.topic for m in mutations}):
        for name in names:
            if name not in known:
                raise BadInput(f"'{name}' is no mutation or topic in {LISTS}{hint(name, known)}.")
    return [m for m in mutations if (not ids or m.id in ids) and (not topics or m.topic in topics)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="these mutations")
    parser.add_argument("--topic", nargs="+", default=[], metavar="NAME", help="those of these files")
    parser.add_argument("--list", action="store_true", help="say what is listed, and run nothing")
    options = parser.parse_args(arguments)
    root = project_root()
    try:
        mutations = chosen(read_mutations(root / LISTS), options.only, options.topic)
    except BadInput as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if options.list:
        for mutation in mutations:
            print(f"{mutation.topic}/{mutation.id}  {mutation.file}  {mutation.caught_by}\n    {mutation.why.strip()}")
        return 0
    results = []
    try:
        for result in judged(root, mutations):
            print(line(result), flush=True)
            results.append(result)
    except KeyboardInterrupt:
        print(f"\nStopped after {len(results)} of {len(mutations)} mutations; the checkout was never changed.")
        return 130
    counts = Counter(result.verdict for result in results)
    print("\n" + ", ".join(f"{counts[verdict]} {verdict.value.lower()}" for verdict in Verdict if counts[verdict]))
    for result in results:
        if result.verdict not in GOOD:
            mutation = result.mutation
            print(f"{result.verdict.value}: {mutation.id} ({mutation.caught_by}): {mutation.why.strip()}")
    return 0 if all(result.verdict in GOOD for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
