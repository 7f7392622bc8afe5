"""The check of the runs of a bundle, a run file at a time."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import BadInput
from tmflow.bundle.documents import machine
from tmflow.bundle.format import Refused, require_few_parts
from tmflow.bundle.problems import Fault, Findings, Problem
from tmflow.bundle.reader import Bundle
from tmflow.bundle.rules import RUN_RULES, clocks, physical, provenance
from tmflow.bundle.rules.expectations import Expectations, expect
from tmflow.platform.facts import display_name
from tmflow.runfile import record
from tmflow.runfile.reader import ReadRun, Shared
from tmflow.runfile.record import Run
from tmflow.runfile.validate import line_reader, read_run

_MAX_BAD_LINES = 1000  # per run file, which may have a thousand million short lines


class Checker:
    """Checks the run files of a bundle, and caches results for the parts that runs share."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._machine = machine(bundle)
        self._reader = line_reader()
        # Weak keys: the caches live as long as the reader's; an untrusted bundle may have new parts in each run.
        self._expectations: WeakKeyDictionary[Shared, Expectations] = WeakKeyDictionary()
        self._faults: WeakKeyDictionary[Shared, tuple[Fault, ...]] = WeakKeyDictionary()

    def documents(self) -> Findings:
        """Check the members that are not run files."""
        findings = Findings()
        for problem in self._machine.problems:
            findings.add(problem)
        return findings

    def run_file(self, member: str) -> Findings:
        """Check a run file."""
        findings = Findings()
        for _ in self.runs(member, findings):
            pass
        return findings

    def runs(self, member: str, findings: Findings) -> Iterator[tuple[str, ReadRun]]:
        """Yield the readable runs of a run file with their positions; add problems to `findings`."""
        findings.keys.begin(member)
        place = provenance.place_of(member)
        trials: list[clocks.Times] = []
        line = bad = 0
        try:
            for line, (where, text) in enumerate(self._bundle.lines(member), start=1):
                read = self._read(member, line, where, text, findings)
                if read is None:
                    bad += 1
                    if bad == _MAX_BAD_LINES:
                        raise Refused(f"{bad} of its lines until line {line} are no runs; the rest is not looked at.")
                else:
                    for fault in provenance.in_place(read.run, place):
                        findings.add(Problem(member, line, read.run.uid, *fault))
                    trials.append(clocks.times(line, read.run))
                    yield where, read
        except Refused as error:
            findings.add(self._bundle.problem(member, error))
        else:
            if not line:
                findings.add(Problem(member, None, None, None, "it is empty; a run file holds one run or more."))
        for trial, fault in (*clocks.overlaps(trials), *clocks.out_of_order(trials)):
            findings.add(Problem(member, trial.line, trial.uid, *fault))

    def _read(self, member: str, line: int, where: str, text: str, findings: Findings) -> ReadRun | None:
        try:
            if "\\" in text and "\\u0000" in text:  # a single character is found at ten times the speed
                raise BadInput(f"{where}: it has the character U+0000, which databases cannot store in a text.")
            require_few_parts(text, where)
            read = read_run(where, text, self._reader)
            provenance.require_names(read.run, where)
        except BadInput as error:
            findings.add(_unreadable(member, line, text, str(error).removeprefix(f"{where}: ")))
            return None
        run = read.run
        expectations = self._expectations.get(read.spec)
        if expectations is None:
            expectations = self._expectations[read.spec] = expect(read.spec.run.spec, self._machine.limits)
        for rule in RUN_RULES:
            for fault in rule(read, expectations):
                findings.add(Problem(member, line, run.uid, *fault))
        for fault in self._origin_faults(read.origin, findings):
            findings.add(Problem(member, line, run.uid, *fault))
        findings.keys.add(line, run.uid, _point(run, expectations))
        findings.timings.add(run, expectations.spec_sha256, expectations.family_sha256)
        findings.runs += 1
        return read

    def _origin_faults(self, shared: Shared, findings: Findings) -> tuple[Fault, ...]:
        faults = self._faults.get(shared)
        if faults is None:
            facts = shared.run.platform
            of_platform = provenance.machine(facts, self._machine.platform_sha256)
            faults = self._faults[shared] = (
                *of_platform,
                *provenance.processor(facts),
                *physical.facts(facts),
                *physical.shared_texts(shared.run),
            )
            findings.note_platform(sha256_of(facts), display_name(facts))
        return faults


def _point(run: Run, expectations: Expectations) -> str:
    """The key that identifies a run: its point, round and campaign."""
    experiment = run.experiment
    return (
        f"{run.campaign.uid}\n{run.round}\n{expectations.spec_sha256}\n{experiment.definition_sha256}\n{experiment.scale}\n"
        f"{experiment.name}"
    )


def _unreadable(member: str, line: int, text: str, message: str) -> Problem:
    """The problem of a line that is no run, with its uid if the line has one."""
    try:
        require_few_parts(text, "")
        uid = record.decoded(text, "").get("uid")
    except BadInput:
        uid = None
    field, separator, rest = message.partition(": ")
    is_field = separator and " " not in field
    return Problem(
        member, line, uid if isinstance(uid, str) else None, field if is_field else None, rest if is_field else message
    )
