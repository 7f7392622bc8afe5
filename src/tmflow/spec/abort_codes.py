"""Why a transaction aborted: the raw status of the machine, its family, and the classes of the study.

RTM reports in EAX, 32 bits numbered from the lowest (Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 1, chapter 16, "RTM Abort Status Definition"): 0 XABORT was executed, 1 the transaction may succeed on a retry, 2
a conflict with another logical processor, 3 an internal buffer overflowed, 4 a debug breakpoint was hit, 5 the abort
was inside a nested transaction, 31:24 the code of XABORT (meaningful with bit 0 only). Several bits may be set. A
status of 0 gives no cause, as after an interrupt, a fault or an instruction that is not allowed in a transaction.

POWER reports in TEXASR, 64 bits numbered from the highest (Power ISA 2.07, book II, chapter 5; GCC's htmintrin.h):
0:7 failure code, in which bit 7 marks the failure as persistent; 8 disallowed; 9 nested too deep; 10 footprint
overflow; 11 self-induced, 12 non-transactional and 13 transactional conflict; 14 an address translation was
invalidated; 15 specific to the implementation; 16 conflict with an instruction fetch; 31 aborted by an instruction
(tabort by the program, treclaim by the kernel; the failure code distinguishes them, the kernel's are in its asm/tm.h).

The project's own STMs report the number of a cause (native_ops/include/tmflow/stm/cause.hpp).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Literal

Family = Literal[
    "conflict",
    "capacity",
    "explicit",
    "lock_subscription",
    "interrupt_or_fault",
    "validation",
    "nested",
    "debug",
    "unknown",
]
TsxClass = Literal["capacity", "conflict", "other"]
PowerClass = Literal["self_conflict", "trans_conflict", "nontrans_conflict", "user", "capacity", "other"]

MUTEX_TAKEN = 30  # code of an abort because the mutex was taken: both the study's and this project's
EXPLICIT, RETRY, CONFLICT, CAPACITY, DEBUG, NESTED = (1 << bit for bit in range(6))

# The name and the family of each cause of the STM, by its number.
STM_CAUSES: dict[int, tuple[str, Family]] = {
    1: ("requested", "explicit"),
    2: ("exception", "explicit"),
    3: ("read_locked", "conflict"),
    4: ("write_locked", "conflict"),
    5: ("commit_locked", "conflict"),
    6: ("read_invalid", "validation"),
    7: ("write_invalid", "validation"),
    8: ("commit_invalid", "validation"),
    9: ("killed", "conflict"),
}

# The names of the bits, by their numbers in the manuals.
_RTM_BITS = ("explicit", "may succeed on a retry", "conflict", "capacity", "debug", "nested")
_POWER_BITS = {
    7: "persistent",
    8: "disallowed",
    9: "nested too deep",
    10: "footprint overflow",
    11: "self-induced conflict",
    12: "non-transactional conflict",
    13: "transactional conflict",
    14: "translation invalidated",
    15: "specific to the implementation",
    16: "conflict with an instruction fetch",
    31: "by an instruction",
}

_KERNEL_CODES = range(0xD0, 0xE4)  # TM_CAUSE_EMULATE to TM_CAUSE_KVM_FAC_UNAV, the persistent ones included


def classify(mechanism: str, status: int) -> dict[str, str]:
    """The fields `raw_code` and `family` of a `runfile.Abort`.

    status: the raw status as a signed or unsigned number of 64 bits.
    """
    unsigned = status % 2**64
    return {"raw_code": raw_code(unsigned), "family": FAMILIES[mechanism](unsigned)}


def raw_code(status: int) -> str:
    """Format a raw status: hexadecimal, at least 8 digits."""
    return f"0x{status:08x}"


def status_of(raw_code: str) -> int:
    """Parse a raw status in the format of `raw_code`; any other text gives 0, which has no bit set."""
    return int(raw_code, 16) if re.fullmatch("0x[0-9a-f]{1,16}", raw_code) else 0


@cache
def describe(mechanism: str, status: int) -> str:
    """Describe a raw status in words: its bits, and the code that the program gave when it aborted."""
    if mechanism == "rtm":
        bits = [name for bit, name in enumerate(_RTM_BITS) if status >> bit & 1]
        code = [f"code {status >> 24}"] if status & EXPLICIT else []
    elif mechanism == "power":
        bits = [name for bit, name in _POWER_BITS.items() if _bits(status, bit)]
        code = [f"code {status >> 56}"] if _bits(status, 31) else []
    else:
        causes = STM_CAUSES if mechanism == "stm" else {}
        return causes[status][0].replace("_", " ") if status in causes else "not reported"
    return ", ".join([*bits, *code]) or "no bit set"


def rtm_family(status: int) -> Family:
    """The family of an abort of RTM. If several bits are set, the first of these decides:

    1. explicit: the program itself ended the transaction, and its code gives the reason. There is no other cause.
    2. debug: a breakpoint ends every transaction that reaches it.
    3. capacity: a transaction that does not fit would abort without the conflict too.
    4. conflict.
    5. nested: where the abort happened, and not why, so it decides only without a cause.

    An interrupt or a fault leaves a status of 0. The retry bit is advice and not a cause: alone, it is unknown.
    """
    if status & EXPLICIT:
        return "lock_subscription" if status >> 24 == MUTEX_TAKEN else "explicit"
    by_bit: dict[int, Family] = {DEBUG: "debug", CAPACITY: "capacity", CONFLICT: "conflict", NESTED: "nested"}
    without_bit: Family = "interrupt_or_fault" if status == 0 else "unknown"
    return next((family for bit, family in by_bit.items() if status & bit), without_bit)


def power_family(texasr: int) -> Family:
    """The family of an abort on POWER.

    An instruction decides first, because it was the only cause. Then, as for RTM, causes that would recur decide before
    those that pass: overflows, conflicts, operations that a transaction may not execute.
    """
    if _bits(texasr, 31):
        code = texasr >> 56
        if code == MUTEX_TAKEN:
            return "lock_subscription"
        return "interrupt_or_fault" if code in _KERNEL_CODES else "explicit"
    if _bits(texasr, 9):
        return "nested"
    if _bits(texasr, 10):
        return "capacity"
    if _bits(texasr, 11, 14) or _bits(texasr, 16):
        return "conflict"
    return "interrupt_or_fault" if _bits(texasr, 8) else "unknown"


def reported_family(causes: Mapping[int, tuple[str, Family]], cause: int) -> Family:
    """The family of an abort of software transactions, which report the number of a cause; "unknown" for no cause."""
    return causes[cause][1] if cause in causes else "unknown"


def study_tsx_class(status: int) -> TsxClass:
    """The class in which the study counted an abort on TSX.

    Known from its source (TM_BEGIN in tensorflow/core/kernels/tm.h): an abort is "capacity" if its whole status equals
    _XABORT_CAPACITY, so capacity with any other bit is not. Of the others, all with the conflict bit are conflicts,
    before explicit, nested, debug and retry, which have separate counters. Assumed: its figures show three classes, of
    which "other" is the sum of those counters and of the aborts without any bit.
    """
    if status == CAPACITY:
        return "capacity"
    return "conflict" if status & CONFLICT else "other"


def tsx_class(status: int) -> TsxClass:
    """The study's class of an abort on TSX by its family."""
    classes: dict[Family, TsxClass] = {"capacity": "capacity", "conflict": "conflict"}
    return classes.get(rtm_family(status), "other")


def study_power_class(texasr: int) -> PowerClass:
    """The class in which the study counted an abort on POWER8.

    Known from its source (TM_BEGIN in the POWER version of the same file): conflicts come first, self-induced before
    transactional before non-transactional, then user aborts, then capacity. Assumed: a conflict of another kind (an
    invalidated translation), which the source counts as a conflict only, is "other" in the figures.
    """
    if kind := _power_conflict(texasr):
        return kind
    if _bits(texasr, 14):
        return "other"
    if _bits(texasr, 31):
        return "user"
    return "capacity" if _bits(texasr, 10) else "other"


def power_class(texasr: int) -> PowerClass:
    """The study's class of an abort on POWER by its family, and by the kind of conflict."""
    family = power_family(texasr)
    if family == "conflict":
        return _power_conflict(texasr) or "other"
    classes: dict[Family, PowerClass] = {"explicit": "user", "lock_subscription": "user", "capacity": "capacity"}
    return classes.get(family, "other")


def _power_conflict(texasr: int) -> PowerClass | None:
    """The kind of conflict, by the first of its bits in the study's order."""
    kinds: dict[int, PowerClass] = {11: "self_conflict", 13: "trans_conflict", 12: "nontrans_conflict"}
    return next((kind for bit, kind in kinds.items() if _bits(texasr, bit)), None)


def _bits(texasr: int, first: int, last: int | None = None) -> int:
    """Bits `first` to `last` of TEXASR, by their numbers in the manual: from the highest."""
    last = first if last is None else last
    return texasr >> (63 - last) & (1 << (last - first + 1)) - 1


# libitm reports the number of its restarts and no causes; glibc (tle) reports no aborts.
FAMILIES: dict[str, Callable[[int], Family]] = {
    "rtm": rtm_family,
    "power": power_family,
    "stm": partial(reported_family, STM_CAUSES),
    "itm": partial(reported_family, {}),
    "tle": partial(reported_family, {}),
}

# The classes of the study's figures: by the study's rule, and by the family.
CLASSES: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    "rtm": (study_tsx_class, tsx_class),
    "power": (study_power_class, power_class),
}
