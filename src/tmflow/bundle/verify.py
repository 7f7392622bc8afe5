"""Whether a bundle can be trusted as far as its own numbers tell: one check for contributors, import and portal."""

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

LOOKED_UP = 20  # runs that are there twice of which the uid is told, for which their run file is read again


def verify(path: Path, allowed_signers: Path | None = None) -> Report:
    """Check a bundle; whatever is wrong with it is in the report.

    allowed_signers: a file as ssh-keygen(1) describes it; where it is given, a bundle that none of them signed is
    wrong. Raises BadInput for a file that cannot be used.
    """
    signature.require_allowed_signers(allowed_signers)
    findings = Findings()
    try:
        with open_bundle(path) as bundle:
            for _ in checked(bundle, findings, only_checked, allowed_signers):
                pass
            return report(bundle.identity, bundle.version, findings)
    except Refused as error:
        findings.add(Problem(None, None, None, None, str(error)))
        return report(None, None, findings)


def checked(
    bundle: Bundle, findings: Findings, prepare: Prepare[Made], allowed_signers: Path | None = None
) -> Iterator[Made]:
    """What is made of each run file while it is checked.

    Whatever is wrong is added to `findings`, the last of it when the iteration ends: nothing may be kept of a bundle
    before that, or where there are `findings.errors`. Raises Refused for one of too many runs.
    """
    _check_signature(bundle, findings, allowed_signers)
    checker = Checker(bundle)
    findings.merge(checker.documents())
    for its, made in parallel.run_files(bundle, checker, prepare):
        findings.merge(its)
        _require_not_too_many(bundle, findings)
        yield made
    _of_all(bundle, findings)


def _check_signature(bundle: Bundle, findings: Findings, allowed_signers: Path | None) -> None:
    """Add the signature of the bundle, or what is wrong with it, to the findings."""
    if bundle.signature is None:
        if allowed_signers is not None:
            findings.add(_of_signature("it is missing, and a bundle of one of the allowed signers has one."))
    elif allowed_signers is None and not signature.can_check():
        findings.add(_of_signature("it is not checked, because ssh-keygen is not installed here.", "note"))
    else:
        try:
            findings.signature = signature.check(bundle.manifest_text, bundle.signature, allowed_signers)
        except Refused as error:
            findings.add(_of_signature(str(error)))


def _of_signature(text: str, severity: Severity = "error") -> Problem:
    return Problem(format.SIGNATURE, None, None, None, text, severity)


def only_checked(_: Bundle, checker: Checker) -> Work[None]:
    """Nothing is made of the run files."""
    return lambda member: (checker.run_file(member), None)


def _require_not_too_many(bundle: Bundle, findings: Findings) -> None:
    if findings.runs > format.MAX_RUNS:
        raise Refused(f"{bundle.path} has more than {format.MAX_RUNS:,} runs, which are the most allowed.")


def _of_all(bundle: Bundle, findings: Findings) -> None:
    """What is to be said when every run file was read."""
    if len(findings.platforms) > 1:
        text = f"it has runs of {len(findings.platforms)} machines; a bundle has those of one."
        findings.add(Problem(None, None, None, "platform", text))
    if not bundle.run_members():
        findings.add(Problem(None, None, None, None, "it has no run file; a bundle has one or more."))
    for sentence in findings.timings.contradictions():
        findings.add(Problem(None, None, None, "loop_s", sentence))
    for name, what in (("uid", "the uid"), ("point", "the campaign, the round and the point")):
        for (member, line), (before, at) in findings.keys.twice(name):
            uid = _uid(bundle, member, line) if len(findings.errors) < LOOKED_UP else None
            findings.add(Problem(member, line, uid, None, f"it has {what} of the run in {before}, line {at}."))


def _uid(bundle: Bundle, member: str, line: int) -> str | None:
    try:
        where, text = next(islice(bundle.lines(member), line - 1, None))
        uid = record.decoded(text, where).get("uid")
    except BadInput:
        return None
    return uid if isinstance(uid, str) else None
