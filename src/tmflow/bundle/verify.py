"""Verifies bundles: one check for contributors, the import and the portal.

Several processes check the run files of a large bundle, with results in the order of the bundle.
`concurrent.futures.ProcessPoolExecutor` would leave its processes behind if this one is killed (docs/adr/0005).
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import IO, TypeVar
from weakref import WeakKeyDictionary

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.bundle import format, signature
from tmflow.bundle.documents import machine
from tmflow.bundle.format import Refused, require_few_parts
from tmflow.bundle.problems import Fault, Problem, Report
from tmflow.bundle.reader import Bundle, open_bundle
from tmflow.bundle.rules import RUN_RULES, clocks, physical, provenance
from tmflow.bundle.rules.expectations import Expectations, expect
from tmflow.platform.facts import cpus_allowed, display_name
from tmflow.runfile import lines
from tmflow.runfile.reader import Reader, ReadRun, Shared
from tmflow.runfile.record import Run

LOOKED_UP = 20  # duplicate runs whose uid is reported, which requires reading their run file again
MAX_BAD_LINES = 1000  # per run file, which may have a billion (10^9) short lines

_COMMON = {
    "campaign.created_at_utc": "a campaign was created once",
    "order_seed": "a round has one order",
    "backend.kind": "a backend is of one kind",
}

WORTH_IT = 50 * format.MIB  # starting a process takes most of a second, as long as checking this many bytes
MAX_PROCESSES = 4

Made = TypeVar("Made")
Work = Callable[[str], tuple[Report, Made]]
"""A function that checks a run file and returns its report with a result of the caller's choice."""
Prepare = Callable[[Bundle, "Checker"], Work[Made]]
"""A function that makes the work; it is at module level, so that another process can import it."""


def verify(path: Path, allowed_signers: Path | None = None) -> Report:
    """Verify a bundle and report its problems.

    allowed_signers: a file in the format of ssh-keygen(1); if given, a bundle without a signature of one of them is an
    error. Raises BadInput if the file cannot be used.
    """
    signature.require_allowed_signers(allowed_signers)
    report = Report()
    try:
        with open_bundle(path) as bundle:
            for _ in check_files(bundle, report, no_result, allowed_signers):
                pass
    except Refused as error:
        report.add(Problem(str(error)))
    return report


def no_result(_: Bundle, checker: Checker) -> Work[None]:
    """Prepare work that checks run files without a result."""

    def check(member: str) -> tuple[Report, None]:
        report = Report()
        for _ in checker.runs(member, report):
            pass
        return report, None

    return check


def check_files(
    bundle: Bundle, report: Report, prepare: Prepare[Made], allowed_signers: Path | None = None
) -> Iterator[Made]:
    """Check each run file and yield the result of `prepare`'s work on it.

    Problems are added to `report`, some only at the end of the iteration. The caller must not store anything of the
    bundle before the end, or if there are `report.errors`. Raises Refused if the bundle has too many runs.
    """
    _check_signature(bundle, report, allowed_signers)
    checker = Checker(bundle)
    for problem in checker.problems:
        report.add(problem)
    for of_member, made in check_run_files(bundle, checker, prepare):
        report.merge(of_member)
        if report.runs > format.MAX_RUNS:
            raise Refused(f"{bundle.path} has more than {format.MAX_RUNS:,} runs, which are the most allowed.")
        yield made
    _check_totals(bundle, report)
    report.identity, report.version = bundle.identity, bundle.version


def _check_signature(bundle: Bundle, report: Report, allowed_signers: Path | None) -> None:
    """Add the signature of the bundle, or its problem, to the report."""
    if bundle.signature is None:
        if allowed_signers is not None:
            report.add(Problem("it is missing, but the allowed signers require one.", format.SIGNATURE))
    elif allowed_signers is None and not signature.can_check():
        text = "it is not checked, because ssh-keygen is not installed here."
        report.add(Problem(text, format.SIGNATURE, severity="note"))
    else:
        try:
            report.signature = signature.check(bundle.manifest_text, bundle.signature, allowed_signers)
        except Refused as error:
            report.add(Problem(str(error), format.SIGNATURE))


def _check_totals(bundle: Bundle, report: Report) -> None:
    """Add the problems of the bundle as a whole, after every run file was read."""
    if len(report.platforms) > 1:
        text = f"it has runs of {len(report.platforms)} machines; a bundle has those of one."
        report.add(Problem(text, field="platform"))
    if not bundle.run_members():
        report.add(Problem("it has no run file; a bundle has one or more."))
    for sentence in report.timings.contradictions():
        report.add(Problem(sentence, field="loop_s"))
    for field, (member, line), (before, at) in report.common_fields.contradictions():
        text = f"it differs from that of the run in {before}, line {at}; {_COMMON[field]}."
        report.add(Problem(text, member, line, field=field))
    for name, what in (("uid", "the uid"), ("point", "the campaign, the round, the point and the repeat")):
        for (member, line), (before, at) in report.keys.duplicates(name):
            uid = _uid_at(bundle, member, line) if len(report.errors) < LOOKED_UP else None
            report.add(Problem(f"it has {what} of the run in {before}, line {at}.", member, line, uid))


def _uid_at(bundle: Bundle, member: str, line: int) -> str | None:
    try:
        _, text = next(islice(bundle.lines(member), line - 1, None))
    except Refused:
        return None
    return _uid_of(text)


def _uid_of(line: str) -> str | None:
    """The uid of a line that may not be a run; None if it has none."""
    try:
        require_few_parts(line, "")
        uid = lines.decoded(line, "").get("uid")
    except BadInput:
        return None
    return uid if isinstance(uid, str) else None


class Checker:
    """Checks the run files of a bundle, and caches results for the parts that runs share.

    problems: those of the members that are not run files.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._machine = machine(bundle)
        self.problems = self._machine.problems
        self._reader = Reader()
        # Weak keys: the caches live as long as the reader's; an untrusted bundle may have new parts in each run.
        self._expectations: WeakKeyDictionary[Shared, Expectations] = WeakKeyDictionary()
        self._faults: WeakKeyDictionary[Shared, tuple[Fault, ...]] = WeakKeyDictionary()

    def runs(self, member: str, report: Report) -> Iterator[tuple[str, ReadRun]]:
        """Yield the readable runs of a run file with their positions; add problems to `report`."""
        report.keys.begin(member)
        report.common_fields.begin(member)
        place = provenance.place_of(member)
        trials: list[clocks.Times] = []
        line = n_bad = 0
        try:
            for line, (where, text) in enumerate(self._bundle.lines(member), start=1):
                try:
                    read = self._read(text, where)
                except BadInput as error:
                    report.add(_unreadable(member, line, text, str(error).removeprefix(f"{where}: ")))
                    n_bad += 1
                    if n_bad == MAX_BAD_LINES:
                        raise Refused(
                            f"{n_bad} of its lines until line {line} are not runs; the rest is not checked."
                        ) from error
                    continue
                run, expectations = read.run, self._expected(read.spec)
                faults = self._faults_of(read, expectations, report)
                for fault in (*faults, *provenance.in_place(run, place)):
                    report.add(Problem(fault.text, member, line, run.uid, fault.field))
                report.keys.add(line, run.uid, _point(run, expectations))
                report.common_fields.add(line, run)
                report.timings.add(run, expectations.spec_sha256, expectations.family_sha256)
                report.runs += 1
                trials.append(clocks.times(line, run))
                yield where, read
        except Refused as error:
            report.add(self._bundle.problem(member, error))
        else:
            if not line:
                report.add(Problem("it is empty; a run file holds one run or more.", member))
        for trial, fault in clocks.contradictions(trials):
            report.add(Problem(fault.text, member, trial.line, trial.uid, fault.field))

    def _read(self, text: str, where: str) -> ReadRun:
        if "\\" in text and "\\u0000" in text:  # finding a single character is ten times as fast
            raise BadInput(f"{where}: it has the character U+0000, which databases cannot store in a text.")
        require_few_parts(text, where)
        read = self._reader.read(text, where)
        provenance.require_names(read.run, where)
        return read

    def _expected(self, shared: Shared) -> Expectations:
        expectations = self._expectations.get(shared)
        if expectations is None:
            expectations = self._expectations[shared] = expect(shared.run.spec, self._machine.limits)
        return expectations

    def _faults_of(self, read: ReadRun, expectations: Expectations, report: Report) -> Iterator[Fault]:
        for rule in RUN_RULES:
            yield from rule(read, expectations)
        faults = self._faults.get(read.origin)
        if faults is None:
            facts = read.origin.run.platform
            faults = self._faults[read.origin] = (
                *provenance.machine(facts, self._machine.platform_sha256),
                *provenance.processor(facts),
                *physical.facts(facts),
                *physical.shared_texts(read.origin.run),
            )
            report.add_platform(sha256_of(facts), display_name(facts))
        yield from faults


def _point(run: Run, expectations: Expectations) -> str:
    """The key that identifies a run: its point, repeat, round and campaign."""
    experiment = run.experiment
    return (
        f"{run.campaign.uid}\n{run.round}\n{run.repeat}\n{expectations.spec_sha256}\n{experiment.definition_sha256}\n{experiment.scale}\n"
        f"{experiment.name}"
    )


def _unreadable(member: str, line: int, text: str, message: str) -> Problem:
    """The problem of a line that is not a run, with its uid if the line has one."""
    field, separator, rest = message.partition(": ")
    if not separator or " " in field:
        return Problem(message, member, line, _uid_of(text))
    return Problem(rest, member, line, _uid_of(text), field)


def check_run_files(bundle: Bundle, checker: Checker, prepare: Prepare[Made]) -> Iterator[tuple[Report, Made]]:
    """Yield the work on each run file, in order; large bundles are checked by several processes."""
    members = bundle.run_members()
    n_bytes = sum(entry.bytes for entry in bundle.manifest if format.is_run_file(entry.path))
    n = min(cpus_allowed() or os.cpu_count() or 1, MAX_PROCESSES, len(members))
    if n < 2 or n_bytes < WORTH_IT:
        yield from map(prepare(bundle, checker), members)
        return
    with ExitStack() as stack:
        pipes = [stack.enter_context(_process(bundle, n, number, prepare)) for number in range(n)]
        # A process that is ahead blocks on its full pipe, so neither side holds much in memory.
        for _, pipe in zip(members, cycle(pipes), strict=False):
            try:
                result: tuple[Report, Made] = pickle.load(pipe)
            except (EOFError, pickle.UnpicklingError) as error:
                raise BadInput(
                    f"{bundle.path} is not checked completely: a process that checks its run files ended early, "
                    "perhaps because memory was full; try again when less is running."
                ) from error
            yield result


@contextmanager
def _process(bundle: Bundle, n: int, number: int, prepare: Prepare[Made]) -> Iterator[IO[bytes]]:
    """Run a process that works on every n-th run file; it is killed at the end of the block."""
    work = [prepare.__module__, prepare.__name__, str(bundle.path), bundle.identity, str(n), str(number)]
    # -P: the bundle may have been downloaded to the current folder, along with untrusted modules. -c: with -m, this
    # module would run as __main__, and its classes would differ from those that the parent unpickles.
    command = [sys.executable, "-P", "-c", "from tmflow.bundle.verify import main; main()", *work]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def main() -> None:
    """The program of a process that `_process` starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # if the parent was killed, writing ends it
    module, prepare, path, identity, n, number = sys.argv[1:]
    with open_bundle(Path(path)) as bundle:
        if bundle.identity != identity:
            raise RuntimeError(f"{path} changed to another bundle")
        work = getattr(import_module(module), prepare)(bundle, Checker(bundle))
        for member in bundle.run_members()[int(number) :: int(n)]:
            pickle.dump(work(member), sys.stdout.buffer)
            sys.stdout.buffer.flush()
