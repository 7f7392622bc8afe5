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
from tmflow.bundle.rules import OF_A_RUN, clocks, physical, provenance
from tmflow.bundle.rules.expectations import Known, known
from tmflow.platform.facts import display_name
from tmflow.runfile import record
from tmflow.runfile.reader import ReadRun, Shared
from tmflow.runfile.record import Run
from tmflow.runfile.validate import line_reader, read_run

_MAX_BAD_LINES = 1000  # of a run file: what stands on them may be short, and a thousand million of it


class Checker:
    """Checks the run files of a bundle, and remembers what their runs share."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._machine = machine(bundle)
        self._reader = line_reader()
        # As long as the reader remembers them: a stranger may have other ones in each run.
        self._known: WeakKeyDictionary[Shared, Known] = WeakKeyDictionary()
        self._faults: WeakKeyDictionary[Shared, tuple[Fault, ...]] = WeakKeyDictionary()

    def documents(self) -> Findings:
        """What is wrong with what is not a run file."""
        findings = Findings()
        for problem in self._machine.problems:
            findings.add(problem)
        return findings

    def run_file(self, member: str) -> Findings:
        """What is wrong with a run file."""
        findings = Findings()
        for _ in self.runs(member, findings):
            pass
        return findings

    def runs(self, member: str, findings: Findings) -> Iterator[tuple[str, ReadRun]]:
        """The runs of a run file that can be read, each with where it is; what is wrong is added to the findings."""
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
            if "\\" in text and "\\u0000" in text:  # one character is found ten times as fast
                raise BadInput(f"{where}: it has the character U+0000, which no database keeps in a text.")
            require_few_parts(text, where)
            read = read_run(where, text, self._reader)
            provenance.require_names(read.run, where)
        except BadInput as error:
            findings.add(_unreadable(member, line, text, str(error).removeprefix(f"{where}: ")))
            return None
        run = read.run
        its = self._known.get(read.spec)
        if its is None:
            its = self._known[read.spec] = known(read.spec.run.spec, self._machine.limits)
        for rule in OF_A_RUN:
            for fault in rule(read, its):
                findings.add(Problem(member, line, run.uid, *fault))
        for fault in self._of_origin(read.origin, findings):
            findings.add(Problem(member, line, run.uid, *fault))
        findings.keys.add(line, run.uid, _point(run, its))
        findings.timings.add(run, its.spec_sha256, its.family_sha256)
        findings.runs += 1
        return read

    def _of_origin(self, its: Shared, findings: Findings) -> tuple[Fault, ...]:
        faults = self._faults.get(its)
        if faults is None:
            facts = its.run.platform
            of_platform = provenance.machine(facts, self._machine.platform_sha256)
            faults = self._faults[its] = (
                *of_platform,
                *provenance.processor(facts),
                *physical.facts(facts),
                *physical.shared_texts(its.run),
            )
            findings.note_platform(sha256_of(facts), display_name(facts))
        return faults


def _point(run: Run, its: Known) -> str:
    """What no two runs have the same: their point, their round and their campaign."""
    experiment = run.experiment
    return (
        f"{run.campaign.uid}\n{run.round}\n{its.spec_sha256}\n{experiment.definition_sha256}\n{experiment.scale}\n"
        f"{experiment.name}"
    )


def _unreadable(member: str, line: int, text: str, said: str) -> Problem:
    """A line that is no run; its uid where it has one all the same."""
    try:
        require_few_parts(text, "")
        uid = record.decoded(text, "").get("uid")
    except BadInput:
        uid = None
    field, found, rest = said.partition(": ")
    is_field = found and " " not in field
    return Problem(
        member, line, uid if isinstance(uid, str) else None, field if is_field else None, rest if is_field else said
    )
