"""Unintended differences between the two sides of a comparison, and whether they block it.

A fact that is unknown on either side never counts as equal: it is listed as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd

from tmflow.analysis.comparison import FACTORS, Measure, Sides
from tmflow.analysis.rounds import flags, with_dataset
from tmflow.analysis.run_table import VARIANT
from tmflow.analysis.variants import name_of
from tmflow.base.text import several
from tmflow.native.registry import consistency_by_strategy
from tmflow.platform.description import format_fact
from tmflow.runfile.record import NO_TIME

Judgement = Literal["blocks", "caution", "meant", "harmless"]
"""The difference invalidates the comparison, may explain the result, is what is compared, or has no effect."""
JUDGEMENTS: tuple[Judgement, ...] = get_args(Judgement)

UNKNOWN = "unknown"
SHOWN = 80  # characters shown of a value
DIGITS = 10  # shown of a hash

Values = frozenset[Any]
"""The distinct values of a fact on one side; None stands for the unknown value of a run."""


class Difference(NamedTuple):
    """A fact in which two sides differ, or may differ; `what` is the thing that the fact describes."""

    judgement: Judgement
    what: str
    fact: str
    a: str
    b: str
    why: str


class Things(NamedTuple):
    """The facts of platforms by slug, and of environments and software by hash (`store.platform_queries`)."""

    platforms: Mapping[str, Mapping[str, Any]]
    environments: Mapping[str, Mapping[str, Any]]
    software: Mapping[str, Mapping[str, Any]]


OF_RUNS: dict[str, tuple[Judgement, str]] = {
    "evidence": ("blocks", "kinds of evidence are never pooled nor compared"),
    "scale": ("blocks", "quick and ad hoc runs show that things work, and are no result"),
    "dataset_sha256": ("blocks", "they did not train on the same data"),
    "time_domain": ("blocks", "their clocks do not measure the same"),
    "backend": ("caution", "what stood in for hardware is not the same"),
    "experiment": ("caution", "other points ran in between"),
    "definition_sha256": ("caution", "other points ran in between"),
    "campaign_uid": ("harmless", "another call of the study: the page says whether rounds are paired"),
}
MEASURED = {"network"}  # facts of environments that are measured anew in each round
NO_MATCH = "no point of one side matches a point of the other"
# Factors of the points that say more when they block a comparison.
WHY = {
    "driver": "their steps do not do the same work, and the workers of driver cluster are processes",
    "mode": "an update of mode async has the gradient of one worker, one of mode sync the mean of several",
}
OF_TIME = {"time domain", "time"}  # facts that block comparisons of speed, not those of accuracy
HASHES = ("_sha256", "_commit")


def differences(sides: Sides, things: Things) -> list[Difference]:
    """List every fact that differs or may differ, blocking ones first.

    The runs of the sides must have the columns `env_sha256` and `software_sha256`.
    """
    sides = replace(sides, a=with_dataset(sides.a), b=with_dataset(sides.b))
    entries = [
        *_time(sides),
        *_of_runs(sides),
        *_factors(sides),
        *_strategy(sides),
        *_of_things("platform", sides, things.platforms, "platform"),
        *_of_things("environment", sides, things.environments, "env_sha256"),
        *_of_things("software", sides, things.software, "software_sha256"),
        *_uncommitted(sides, things.software),
        *_disturbed(sides),
    ]
    return sorted(entries, key=lambda difference: JUDGEMENTS.index(difference.judgement))


def forbids(entries: Sequence[Difference], measure: Measure, letter: str = "B") -> list[str]:
    """Describe each difference that blocks a comparison by `measure`, one sentence each; `letter`: that of `Sides`."""
    return [
        f"{difference.what.capitalize()}: {difference.fact} is {difference.a} in A and {difference.b} in {letter}: "
        f"{difference.why}."
        for difference in entries
        if difference.judgement == "blocks" and (measure == "speed" or difference.fact not in OF_TIME)
    ]


def _time(sides: Sides) -> Iterator[Difference]:
    kinds = ["emulated" if (side["evidence"] == "emulated").any() else "a time" for side in sides]
    if "emulated" in kinds:
        yield Difference("blocks", "run", "time", kinds[0], kinds[1], NO_TIME)


def _of_runs(sides: Sides) -> Iterator[Difference]:
    """Compare columns of runs. A difference blocks nothing if a value is unknown."""
    for column, (judgement, why) in OF_RUNS.items():
        a, b = (_values(side[column]) for side in sides)
        if a == b and (None not in a or column == "backend"):  # a run without a backend needs none
            continue
        known_a, known_b = a - {None}, b - {None}
        uncertain = a == b or (judgement == "blocks" and not (known_a and known_b and known_a != known_b))
        yield _difference("run", column, a, b, "caution" if uncertain else judgement, why)


def _factors(sides: Sides) -> Iterator[Difference]:
    """Compare the factors of the points. The sides must share a value; values of one side only are left out."""
    for name in FACTORS:
        a, b = (_values(side[name]) for side in sides)
        if a.isdisjoint(b):
            yield _difference("factor", name, a, b, "blocks", WHY.get(name, NO_MATCH), absent="none")
        elif a != b:
            why = "points that only one side has are left out, and listed"
            yield _difference("factor", name, a, b, "harmless", why, absent="none")


def _strategy(sides: Sides) -> Iterator[Difference]:
    """Compare the variants, and the consistency of their updates: a ratio then shows what consistency costs."""
    for name in VARIANT:
        a, b = (_values(side[name]) for side in sides)
        if a != b:
            yield _difference("strategy", name, a, b, "meant", "what is compared", absent="none")
    consistencies = consistency_by_strategy()
    a, b = (
        frozenset(
            consistencies.get(strategy) if pd.isna(of_adaptive) else of_adaptive
            for strategy, of_adaptive in side[["strategy", "promise"]].drop_duplicates().itertuples(index=False)
        )
        for side in sides
    )
    if a != b or None in a:
        why = "the ratio is then the price of stronger consistency, not a better way to provide it"
        yield _difference("strategy", "consistency of updates", a, b, "caution", why)


def _of_things(what: str, sides: Sides, facts: Mapping[str, Mapping[str, Any]], column: str) -> Iterator[Difference]:
    """Compare the facts that `column` refers to. Runs of the same rounds share even unknown facts."""
    keys = [_values(side[column]) for side in sides]
    judgement: Judgement
    if sides.paired and keys[0] == keys[1] and len(keys[0]) == 1:
        judgement, why = "harmless", "unknown, and the same: both ran in the same rounds"
    elif what == "platform" and keys[0] != keys[1]:
        judgement, why = "meant", "other platforms are compared"
    else:
        judgement, why = "caution", "it may explain the difference, or part of it"
    names = dict.fromkeys(name for side in keys for key in side if key for name in facts.get(key, {}))
    for name in (name for name in names if name not in MEASURED):
        a, b = (
            frozenset(
                None if (value := facts.get(key, {}).get(name)) is None else format_fact(name, value) for key in side
            )
            for side in keys
        )
        if a != b or None in a or len(a) > 1:
            yield _difference(what, name, a, b, judgement, why)


def _uncommitted(sides: Sides, software: Mapping[str, Mapping[str, Any]]) -> Iterator[Difference]:
    """Compare the campaigns with uncommitted changes, which are the same within a campaign and unknown across two."""
    changed = [sha256 for sha256, facts in software.items() if facts.get("git_dirty")]
    a, b = (_values(side.loc[side["software_sha256"].isin(changed), "campaign_uid"]) for side in sides)
    if a and b and a != b:  # else the facts of the software differ, or nothing does
        why = "the changes are unknown, and may explain the difference, or part of it"
        yield _difference("software", "uncommitted changes in the campaign", a, b, "caution", why)


def _disturbed(sides: Sides) -> Iterator[Difference]:
    """Compare how many runs were disturbed, or may have been."""
    results = [side.loc[side["status"] == "ok", "disturbed"] for side in sides]
    n_unknown = [int(disturbed.isna().sum()) for disturbed in results]
    n_disturbed = [int(flags(disturbed).sum()) for disturbed in results]
    if not any(n_unknown + n_disturbed):
        return
    a, b = (
        f"{n} of {several(len(of) - unknown, 'run')}" + (f", {UNKNOWN} of {unknown} more" if unknown else "")
        for of, n, unknown in zip(results, n_disturbed, n_unknown, strict=True)
    )
    judgement: Judgement = "harmless" if sides.paired and not any(n_disturbed) else "caution"
    why = "other processes on the machine add noise; very short runs cannot detect them"
    yield Difference(judgement, "run", "disturbed", a, b, why)


def _difference(
    what: str, fact: str, a: Values, b: Values, judgement: Judgement, why: str, absent: str = UNKNOWN
) -> Difference:
    """A difference; `absent` is the word for a missing value."""
    return Difference(judgement, what, name_of(fact), _text(fact, a, absent), _text(fact, b, absent), why)


def _values(column: pd.Series) -> Values:
    return frozenset(None if pd.isna(value) else value for value in column.unique())


def _text(fact: str, values: Values, absent: str) -> str:
    ordered = sorted((value for value in values if value is not None), key=lambda value: (str(type(value)), value))
    digits = DIGITS if fact.endswith(HASHES) else SHOWN
    return ", ".join([*(str(value)[:digits] for value in ordered), *([absent] if None in values else [])])
