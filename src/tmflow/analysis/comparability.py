"""Unintended differences between the two sides of a comparison, and whether they block it.

A fact that is unknown on either side never counts as equal: it is entries as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd

from tmflow.analysis.aggregate import flags, with_dataset
from tmflow.analysis.pairwise import FACTORS, Measure, Sides
from tmflow.analysis.run_table import VARIANT
from tmflow.analysis.variants import name_of
from tmflow.base.text import several
from tmflow.native.registry import promises_of_updates
from tmflow.platform.description import format_fact
from tmflow.runfile.record import NO_TIME

Judgement = Literal["blocks", "caution", "meant", "harmless"]
"""Makes the comparison invalid; may explain the result; is what the comparison is about; has no effect."""
JUDGEMENTS: tuple[Judgement, ...] = get_args(Judgement)

UNKNOWN = "unknown"
SHOWN = 80  # characters of a value
DIGITS = 10  # of a hash

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
    "campaign_uid": ("harmless", "another call of the study: whether rounds are paired is told apart"),
}
OF_TIME = {"time domain", "time"}  # facts that block comparisons of speed, not those of accuracy
HASHES = ("_sha256", "_commit")


def differences(sides: Sides, things: Things) -> list[Difference]:
    """List every fact that differs or may differ, blocking ones first.

    The runs of the sides must have the columns `env_sha256` and `software_sha256`.
    """
    sides = Sides(*map(with_dataset, sides))
    entries = [
        *_time(sides),
        *_of_columns("run", sides, OF_RUNS),
        *_factors(sides),
        *_of_columns("strategy", sides, dict.fromkeys(VARIANT, ("meant", "what is compared")), unknown_too=False),
        *_promise(sides),
        *_of_things("platform", sides, things.platforms, "platform"),
        *_of_things("environment", sides, things.environments, "env_sha256"),
        *_of_things("software", sides, things.software, "software_sha256"),
        *_disturbed(sides),
    ]
    return sorted(entries, key=lambda difference: JUDGEMENTS.index(difference.judgement))


def forbids(entries: Sequence[Difference], measure: Measure) -> list[str]:
    """Describe each difference that blocks a comparison by `measure`, one sentence each."""
    return [
        f"{difference.what.capitalize()}: {difference.fact} is {difference.a} in A and {difference.b} in B: "
        f"{difference.why}."
        for difference in entries
        if difference.judgement == "blocks" and (measure == "speed" or difference.fact not in OF_TIME)
    ]


def _time(sides: Sides) -> list[Difference]:
    kinds = ["emulated" if (side["evidence"] == "emulated").any() else "a time" for side in sides]
    return [Difference("blocks", "run", "time", kinds[0], kinds[1], NO_TIME)] if "emulated" in kinds else []


def _of_columns(
    what: str, sides: Sides, rules: Mapping[str, tuple[Judgement, str]], unknown_too: bool = True
) -> list[Difference]:
    """Compare columns of runs; without `unknown_too` an absent value means not applicable, not unknown."""
    differing = []
    for column, (judgement, why) in rules.items():
        a, b = (_values(side[column]) for side in sides)
        no_backend = column == "backend" and a == b
        if a != b or (None in a and unknown_too and not no_backend):
            differing.append(_difference(what, column, a, b, judgement if a != b else "caution", why, unknown_too))
    return differing


def _factors(sides: Sides) -> list[Difference]:
    """Compare the factors of the points: values of one side only are left out, and the sides must share one."""
    differing = []
    for name in FACTORS:
        a, b = (_values(side[name]) for side in sides)
        if a.isdisjoint(b):
            why = "no point of one side matches a point of the other"
            differing.append(_difference("factor", name, a, b, "blocks", why, unknown_too=False))
        elif a != b:
            why = "points that only one side has are left out, and listed"
            differing.append(_difference("factor", name, a, b, "harmless", why, unknown_too=False))
    return differing


def _promise(sides: Sides) -> list[Difference]:
    """Compare the promises for updates. A difference is a caution: the ratio then shows what a promise costs."""
    promises = promises_of_updates()
    a, b = (
        frozenset(
            promises.get(strategy) if pd.isna(promise) else promise
            for strategy, promise in side[["strategy", "promise"]].drop_duplicates().itertuples(index=False)
        )
        for side in sides
    )
    if a == b and None not in a:
        return []
    why = "the ratio is then the price of a promise, not a better way to keep it"
    return [_difference("strategy", "promise for updates", a, b, "caution", why)]


def _of_things(what: str, sides: Sides, facts: Mapping[str, Mapping[str, Any]], column: str) -> list[Difference]:
    """Compare the facts that `column` refers to. Runs of the same rounds share also the facts that are unknown."""
    hashes = [_values(side[column]) for side in sides]
    names = dict.fromkeys(name for side in hashes for one in side if one for name in facts.get(one, {}))
    meant = what == "platform" and hashes[0] != hashes[1]
    shared = sides.paired and hashes[0] == hashes[1] and len(hashes[0]) == 1
    differing = []
    judgement: Judgement
    for name in names:
        a, b = (frozenset(_format(name, facts.get(one, {}).get(name)) for one in side) for side in hashes)
        if a == b and None not in a and len(a) == 1:
            continue
        if shared:
            judgement, why = "harmless", "unknown, and the same: both ran in the same rounds"
        elif meant:
            judgement, why = "meant", "other platforms are compared"
        else:
            judgement, why = "caution", "it may explain the difference, or part of it"
        differing.append(_difference(what, name, a, b, judgement, why))
    return differing


def _disturbed(sides: Sides) -> list[Difference]:
    """Compare how many runs were disturbed, or may have been."""
    words = []
    for side in sides:
        ok = side[side["status"] == "ok"]
        unknown = int(ok["disturbed"].isna().sum())
        words.append(
            f"{int(flags(ok['disturbed']).sum())} of {several(len(ok) - unknown, 'run')}"
            + (f", {UNKNOWN} of {unknown} more" if unknown else "")
        )
    if all(text.startswith("0 ") and UNKNOWN not in text for text in words):
        return []
    undisturbed = sides.paired and all(text.startswith("0 ") for text in words)
    why = "other processes on the machine add noise; very short runs cannot detect them"
    return [Difference("harmless" if undisturbed else "caution", "run", "disturbed", words[0], words[1], why)]


def _difference(
    what: str, fact: str, a: Values, b: Values, judgement: Judgement, why: str, unknown_too: bool = True
) -> Difference:
    """A difference, with the judgement lowered from "blocks" to "caution" where a value is unknown."""
    known_a, known_b = a - {None}, b - {None}
    if unknown_too and judgement == "blocks" and not (known_a and known_b and known_a != known_b):
        judgement = "caution"
    nothing = UNKNOWN if unknown_too else "none"
    return Difference(judgement, what, name_of(fact), _text(fact, a, nothing), _text(fact, b, nothing), why)


def _values(column: pd.Series) -> Values:
    return frozenset(None if pd.isna(value) else value for value in column.unique())


def _format(name: str, value: Any) -> str | None:
    return None if value is None else format_fact(name, value)


def _text(fact: str, values: Values, nothing: str) -> str:
    ordered = sorted((value for value in values if value is not None), key=lambda value: (str(type(value)), value))
    digits = DIGITS if fact.endswith(HASHES) else SHOWN
    words = [*(str(value)[:digits] for value in ordered), *([nothing] if None in values else [])]
    return ", ".join(words)
