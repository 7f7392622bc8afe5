"""Verifies bundles: one check for contributors, the import and the portal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tmflow.base.errors import BadInput
from tmflow.bundle import format, parallel, signature
from tmflow.bundle.checker import Checker
from tmflow.bundle.format import Refused
from tmflow.bundle.parallel import Made, Prepare, Work
from tmflow.bundle.problems import Findings, Problem, Report, Severity, report
from tmflow.bundle.reader import Bundle, open_bundle
from tmflow.runfile import record

LOOKED_UP = 20  # duplicate runs whose uid is reported, which requires reading their run file again


def verify(path: Path, allowed_signers: Path | None = None) -> Report:
    """Verify a bundle and report its problems.

    allowed_signers: a file in the format of ssh-keygen(1); if given, a bundle without a signature of one of them is an
    error. Raises BadInput if the file cannot be used.
    """
    signature.require_allowed_signers(allowed_signers)
    findings = Findings()
    try:
        with open_bundle(path) as bundle:
            for _ in check_files(bundle, findings, no_result, allowed_signers):
                pass
            return report(bundle.identity, bundle.version, findings)
    except Refused as error:
        findings.add(Problem(None, None, None, None, str(error)))
        return report(None, None, findings)


def check_files(
    bundle: Bundle, findings: Findings, prepare: Prepare[Made], allowed_signers: Path | None = None
) -> Iterator[Made]:
    """Check each run file and yield the result of `prepare`'s work on it.

    Problems are added to `findings`, the last ones at the end of the iteration: the caller must not store anything of
    the bundle before the end, nor if there are `findings.errors`. Raises Refused if the bundle has too many runs.
    """
    _check_signature(bundle, findings, allowed_signers)
    checker = Checker(bundle)
    findings.merge(checker.documents())
    for member_findings, made in parallel.run_files(bundle, checker, prepare):
        findings.merge(member_findings)
        _require_not_too_many(bundle, findings)
        yield made
    _check_totals(bundle, findings)


def _check_signature(bundle: Bundle, findings: Findings, allowed_signers: Path | None) -> None:
    """Add the signature of the bundle, or its problem, to the findings."""
    if bundle.signature is None:
        if allowed_signers is not None:
            findings.add(_signature_problem("it is missing, but the allowed signers require one."))
    elif allowed_signers is None and not signature.can_check():
        findings.add(_signature_problem("it is not checked, because ssh-keygen is not installed here.", "note"))
    else:
        try:
            findings.signature = signature.check(bundle.manifest_text, bundle.signature, allowed_signers)
        except Refused as error:
            findings.add(_signature_problem(str(error)))


def _signature_problem(text: str, severity: Severity = "error") -> Problem:
    return Problem(format.SIGNATURE, None, None, None, text, severity)


def no_result(_: Bundle, checker: Checker) -> Work[None]:
    """Prepare work that checks run files without a result."""
    return lambda member: (checker.run_file(member), None)


def _require_not_too_many(bundle: Bundle, findings: Findings) -> None:
    if findings.runs > format.MAX_RUNS:
        raise Refused(f"{bundle.path} has more than {format.MAX_RUNS:,} runs, which are the most allowed.")


def _check_totals(bundle: Bundle, findings: Findings) -> None:
    """Add the problems of the bundle as a whole, after every run file was read."""
    if len(findings.platforms) > 1:
        text = f"it has runs of {len(findings.platforms)} machines; a bundle has those of one."
        findings.add(Problem(None, None, None, "platform", text))
    if not bundle.run_members():
        findings.add(Problem(None, None, None, None, "it has no run file; a bundle has one or more."))
    for sentence in findings.timings.contradictions():
        findings.add(Problem(None, None, None, "loop_s", sentence))
    for name, what in (("uid", "the uid"), ("point", "the campaign, the round and the point")):
        for (member, line), (before, at) in findings.keys.duplicates(name):
            uid = _uid(bundle, member, line) if len(findings.errors) < LOOKED_UP else None
            findings.add(Problem(member, line, uid, None, f"it has {what} of the run in {before}, line {at}."))


def _uid(bundle: Bundle, member: str, line: int) -> str | None:
    try:
        where, text = next(islice(bundle.lines(member), line - 1, None))
        uid = record.decoded(text, where).get("uid")
    except BadInput:
        return None
    return uid if isinstance(uid, str) else None
