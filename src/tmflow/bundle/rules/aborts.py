"""Rules on aborts: the raw code must agree with the recorded family."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tmflow.bundle.problems import Fault
from tmflow.bundle.rules.expectations import EMULATED, Expectations
from tmflow.runfile.reader import ReadRun
from tmflow.spec import abort_codes

_LONGEST = len("0x") + 16


def codes_say_families(read: ReadRun, expectations: Expectations) -> Iterator[Fault]:
    """The mechanism is that of the strategy, the code is well-formed, and it implies the family."""
    expected, backend = expectations.mechanism, read.run.backend
    if expected == EMULATED and backend is not None:
        expected = backend.config.get("provider")
    for at, row in enumerate(read.lists.get("aborts", ())):
        mechanism, raw_code = row.mechanism, row.raw_code
        if expected is not None and mechanism != expected:
            text = f"{mechanism!r}, but this run has transactions of {expected!r}."
            yield Fault(f"aborts.{at}.mechanism", text)
        elif mechanism not in abort_codes.FAMILIES:
            yield Fault(f"aborts.{at}.mechanism", f"{mechanism!r} is not known: {', '.join(abort_codes.FAMILIES)}.")
        elif len(raw_code) > _LONGEST:
            yield Fault(f"aborts.{at}.raw_code", f"{raw_code[:_LONGEST]!r}... has more than 64 bits.")
        elif wrong := _contradiction(mechanism, raw_code, row.family):
            yield Fault(f"aborts.{at}", wrong)


@lru_cache(1000)
def _contradiction(mechanism: str, code: str, family: str) -> str | None:
    try:
        description = abort_codes.described(mechanism, int(code, 16))
    except ValueError:
        return f"raw_code {code!r} is no hexadecimal number."
    if description != {"raw_code": code, "family": family}:
        return f"{mechanism} {code}, {family}: the code says {description['raw_code']}, {description['family']}."
    return None
