"""What one machine's runs say of a claim: each check's verdict, and the claim's from those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

import pandas as pd

from tmflow.analysis.run_table import n_rounds
from tmflow.analysis.stats import MANY_ROUNDS, bounded
from tmflow.base.text import interval, several, span, workers
from tmflow.claims.checks import Check, Factors
from tmflow.claims.data import Candidates
from tmflow.claims.schema import Claim
from tmflow.claims.selection import LEAST_ROUNDS, Missing, Selected, ends, select
from tmflow.claims.statements import Statement, Unit, decide, rounds_needed

Verdict = Literal["reproduced", "contradicted", "inconclusive", "untested"]
# Of several checks the first of these that any has: one that fails is enough, and what was not looked at may yet fail.
STRONGEST: tuple[Verdict, ...] = ("contradicted", "untested", "inconclusive", "reproduced")


class Number(TypedDict):
    """A statement as JSON: the estimate with its 95 % interval, and the range that is claimed; None for no bound."""

    experiment: str
    what: str
    unit: Unit
    estimate: float
    low: float | None
    high: float | None
    rounds: int
    claimed_low: float | None
    claimed_high: float | None


@dataclass(frozen=True)
class Finding:
    """What a check, or a claim as a whole, comes to on one machine."""

    verdict: Verdict
    why: str
    numbers: list[Number] = field(default_factory=list)
    more_rounds: int | None = None
    """How many more would decide an inconclusive one, if means and spreads stay."""
    runs: list[pd.DataFrame] = field(default_factory=list)
    decides: Number | None = None
    """Of the numbers the one that the verdict hangs on: the one nearest to failing, or furthest beyond."""
    checks: list[Finding] = field(default_factory=list)
    """Of a claim: what each of its checks comes to, in their order."""


def of_claim(
    claim: Claim,
    configurations: Mapping[str, Factors],
    varying: Mapping[str, Sequence[str]],
    among: Mapping[str, Candidates],
) -> Finding:
    """The finding of a claim; `varying` and `among` are as for `select`, by experiment."""
    looked_at = [
        _look(check, configurations, varying[check.experiment], among[check.experiment]) for check in claim.checks
    ]
    n_statements = sum(len(look.statements) for look in looked_at if isinstance(look, Look))
    findings = [
        _of_check(look, claim.studied_to, n_statements) if isinstance(look, Look) else Finding("untested", f"{look}.")
        for look in looked_at
    ]
    verdict = next(verdict for verdict in STRONGEST if any(finding.verdict == verdict for finding in findings))
    deciding = [finding for finding in findings if finding.verdict == verdict]
    open_rounds = [finding.more_rounds for finding in deciding]
    return Finding(
        verdict,
        " ".join(dict.fromkeys(finding.why for finding in deciding)),
        [number for finding in findings for number in finding.numbers],
        None if None in open_rounds else max(rounds for rounds in open_rounds if rounds is not None),
        [run for finding in findings for run in finding.runs],
        next((finding.decides for finding in deciding if finding.decides), None),
        findings,
    )


class Look(NamedTuple):
    """A check with what its runs make of it."""

    check: Check
    selected: Selected
    statements: list[Statement]


def _look(
    check: Check, configurations: Mapping[str, Factors], varying: Sequence[str], among: Candidates
) -> Look | Missing:
    try:
        selected = select(check, configurations, varying, among)
    except Missing as missing:
        return missing
    statements = check.predicate.statements(selected.curves)
    if not statements:
        return Missing(f"{check.place} has no run with a number of workers that it is about")
    return Look(check, selected, statements)


def _of_check(look: Look, studied_to: int, among: int) -> Finding:
    """What a check comes to, whose statements are among so many of the claim."""
    check, selected, statements = look
    numbers = [number(statement, check.place) for statement in statements]
    nearest = number(min(statements, key=Statement.margin), check.place)
    threads = [*selected.curves[0].threads, *selected.agreeing]
    seen = _seen(check, selected, studied_to)

    def finding(verdict: Verdict, why: str, more_rounds: int | None = None) -> Finding:
        return Finding(verdict, f"{seen}: {why}.", numbers, more_rounds, [selected.runs], nearest)

    fewest, _ = selected.rounds
    if fewest < LEAST_ROUNDS:
        missing = LEAST_ROUNDS - fewest
        why = f"no verdict is drawn from fewer than {LEAST_ROUNDS} rounds, so at least {missing} more are needed"
        return finding("inconclusive", why, missing)
    verdict = decide(statements, among)
    against = [statement for statement in statements if statement.fails(among)]
    if max(threads) < check.predicate.reach and not (against and check.predicate.everywhere):
        sofar = {"reproduced": "it holds so far", "contradicted": "it does not hold so far"}.get(verdict, "it is open")
        if max(_emptied(selected), default=0) >= check.predicate.reach:  # the machine has as many
            too_few, more = _too_few(selected)
            return finding("inconclusive", f"{sofar}, but {too_few}; {_told(statements)}", more)
        why = (
            f"{sofar}, but it is about more workers: a machine with {check.predicate.reach} hardware threads is needed"
        )
        return finding("untested", f"{why}; {_told(statements)}")
    if verdict == "contradicted":
        return finding("contradicted", _told(against))
    if verdict == "reproduced":
        doubt, more = _doubt(check, selected)
        but = f"it holds of those left, but {doubt}; " if doubt else ""
        return finding("inconclusive" if doubt else "reproduced", f"{but}{_told(statements)}", more)
    more, needed = _more(rounds_needed(statements, among), fewest)
    undecided = [statement for statement in statements if not statement.holds()]
    return finding("inconclusive", f"{_told(undecided)}; {needed}", more)


def _seen(check: Check, selected: Selected, studied_to: int) -> str:
    """Which runs were looked at, and all that was odd about them."""
    fewest, most = selected.rounds
    rounds = several(fewest, "round") if fewest == most else f"{fewest} to {most} rounds"
    told = [f"{rounds} at {workers(*selected.curves[0].threads)} (its source: up to {studied_to})"]
    if disturbed := n_disturbed(selected.runs):
        told.append(f"{disturbed} of {several(len(selected.runs), 'run')} disturbed")
    if resumed := n_resumed_rounds(selected.runs):
        told.append(f"{several(resumed, 'round')} interrupted and resumed in another process")
    if selected.agreeing:
        told.append(f"too many diverged at {workers(*selected.agreeing)} for a number")
    if selected.left_out:
        few = (f"{workers(w)}: {n} of {LEAST_ROUNDS} rounds" for w, n in selected.left_out.items())
        told.append(f"without {'; '.join(few)}")
    tried = several(selected.tried, "run")
    if n := len(selected.diverged):
        so = ", which agrees" if check.predicate.diverged_agrees else ""
        told.append(f"{n} of its {tried} diverged and {'has' if n == 1 else 'have'} no accuracy and no time{so}")
    if n := len(selected.failed):
        told.append(f"{n} of its {tried} failed ({ends(selected.failed)})")
    return ", ".join([check.place, *told])


def _doubt(check: Check, selected: Selected) -> tuple[str | None, int | None]:
    """Why what holds of the runs that are left is not shown of all, if so; and the least more rounds that it takes."""
    if len(selected.failed):
        return "what failed may differ", None
    if len(selected.diverged) and not check.predicate.diverged_agrees:
        return "what diverged may differ", None
    return _too_few(selected) if _emptied(selected) else (None, None)


def _emptied(selected: Selected) -> list[int]:
    """The numbers of workers that are left out and of which runs ended without a result."""
    ended = {*selected.failed["threads"], *selected.diverged["threads"]}
    return [w for w in selected.left_out if w in ended]


def _too_few(selected: Selected) -> tuple[str, int | None]:
    """Where too few runs are left, and at least how many more rounds it takes; None where all runs ended so."""
    emptied = _emptied(selected)
    none = [w for w in emptied if not selected.left_out[w]]
    if none:
        return f"none is left at {workers(*none)}, and more rounds would hardly tell", None
    missing = LEAST_ROUNDS - min(selected.left_out[w] for w in emptied)
    return f"too few are left at {workers(*emptied)}, and at least {several(missing, 'more round')} needed", missing


def n_disturbed(runs: pd.DataFrame) -> int:
    """How many of the runs something else on their machine disturbed, as far as is known."""
    return int(runs["disturbed"].fillna(False).astype(bool).sum())


def n_resumed_rounds(runs: pd.DataFrame) -> int:
    """How many rounds of the runs were interrupted, so that a second process ran the rest of them."""
    return n_rounds(runs, runs["resumed"])


def _more(needed: int | None, rounds: int) -> tuple[int | None, str]:
    """How many more rounds would decide, as a number and in words."""
    if needed is None:
        return None, f"not even {MANY_ROUNDS} rounds would decide, as far as these tell"
    more = max(needed - rounds, 1)
    return more, f"about {several(more, 'more round')} would decide"


def _told(statements: Sequence[Statement], most: int = 3) -> str:
    """The statements that are nearest to failing, with their 95 % intervals."""
    nearest = sorted(statements, key=lambda statement: statement.margin())
    told = [_sentence(statement) for statement in nearest[:most]]
    left = len(statements) - len(told)
    return "; ".join(told) + (f"; and {left} more" if left else "")


def _sentence(statement: Statement) -> str:
    return f"{statement.what} {interval(*bounded(statement.interval()))}, claimed {span(*statement.range())}"


def in_words(number: Number) -> str:
    """A number with its interval and what is claimed of it."""
    estimate = interval(number["estimate"], number["low"], number["high"])
    return f"{number['what']}: {estimate}, claimed {span(number['claimed_low'], number['claimed_high'])}"


def number(statement: Statement, experiment: str) -> Number:
    """The numbers of a statement about that experiment."""
    estimate, low, high = bounded(statement.interval())
    claimed_low, claimed_high = statement.range()
    return {
        "experiment": experiment,
        "what": statement.what,
        "unit": statement.unit,
        "estimate": estimate,
        "low": low,
        "high": high,
        "rounds": len(statement.values),
        "claimed_low": claimed_low,
        "claimed_high": claimed_high,
    }
