"""Why a transaction aborted: the machine's raw status, and the families and classes that it is counted in.

RTM reports in EAX, 32 bits numbered from the lowest (Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 1, chapter 16, "RTM Abort Status Definition"): 0 XABORT was executed, 1 the transaction may succeed on a retry, 2
a conflict with another logical processor, 3 an internal buffer overflowed, 4 a debug breakpoint was hit, 5 the abort
was inside a nested transaction, 31:24 the code of XABORT (meaningful with bit 0 only). More than one bit may be set; 0
says nothing, as after an interrupt, a fault or an instruction that no transaction may execute.

POWER reports in TEXASR, 64 bits numbered from the highest (Power ISA 2.07, book II, chapter 5; GCC's htmintrin.h):
0:7 failure code, of which 7 says that the failure is persistent; 8 disallowed; 9 nested too deep; 10 footprint
overflow; 11 self-induced, 12 non-transactional and 13 transactional conflict; 14 an address translation was
invalidated; 15 specific to the implementation; 16 conflict with an instruction fetch; 31 aborted by an instruction
(tabort by the program, treclaim by the kernel; the failure code tells them apart, the kernel's are in its asm/tm.h).

The STMs of our own report the number of a cause (native_ops/include/tmflow/stm/cause.hpp).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
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

MUTEX_TAKEN = 30  # the study's code of an abort because the mutex was found taken; ours too
EXPLICIT, RETRY, CONFLICT, CAPACITY, DEBUG, NESTED = (1 << bit for bit in range(6))

# The causes of the STM, by their numbers, and the family of each.
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

# What the bits say, by their numbers in the manuals.
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


def described(mechanism: str, status: int) -> dict[str, str]:
    """The fields `raw_code` and `family` of a `runfile.Abort`.

    status: the raw status as a signed or unsigned number of 64 bits.
    """
    unsigned = status % 2**64
    return {"raw_code": raw_code(unsigned), "family": FAMILIES[mechanism](unsigned)}


def raw_code(status: int) -> str:
    """The whole raw status as text: hexadecimal, at least 8 digits."""
    return f"0x{status:08x}"


def status_of(raw_code: str) -> int:
    """The raw status that a text such as `raw_code` gives is; of any other text 0, which has no bit set."""
    return int(raw_code, 16) if re.fullmatch("0x[0-9a-f]{1,16}", raw_code) else 0


@cache
def says(mechanism: str, status: int) -> str:
    """What a raw status says, in words: its bits, and the code that an abort by the program gave."""
    if mechanism == "rtm":
        bits = [name for bit, name in enumerate(_RTM_BITS) if status >> bit & 1]
        code = [f"code {status >> 24}"] if status & EXPLICIT else []
    elif mechanism == "power":
        bits = [name for bit, name in _POWER_BITS.items() if _bits(status, bit)]
        code = [f"code {status >> 56}"] if _bits(status, 31) else []
    else:
        return STM_CAUSES[status][0].replace("_", " ") if mechanism == "stm" and status in STM_CAUSES else "not told"
    return ", ".join([*bits, *code]) or "no bit set"


def rtm_family(status: int) -> Family:
    """The family of an abort of RTM. Where several bits are set, the first of these decides:

    1. explicit: the program itself ended the transaction, and its code says why. Nothing else can have been the cause.
    2. debug: a breakpoint ends every transaction that meets it.
    3. capacity: a transaction that does not fit aborts alone too, so a conflict at the same time is not what keeps it
       from committing.
    4. conflict.
    5. nested says where, not why: it decides only where no cause is given.

    A status of 0 is what an interrupt or a fault leaves. Retry is advice and no cause: alone, it is unknown.
    """
    if status & EXPLICIT:
        return "lock_subscription" if status >> 24 == MUTEX_TAKEN else "explicit"
    if status & DEBUG:
        return "debug"
    if status & CAPACITY:
        return "capacity"
    if status & CONFLICT:
        return "conflict"
    if status & NESTED:
        return "nested"
    return "interrupt_or_fault" if status == 0 else "unknown"


def power_family(texasr: int) -> Family:
    """The family of an abort on POWER. An instruction decides first, for it alone was the cause; then, as for RTM, what
    would recur before what passes: overflows, then conflicts, then what the transaction may not do.
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


def stm_family(cause: int) -> Family:
    """The family of an abort of the STM: two wanted the same, what was read had changed, or it was asked for."""
    return STM_CAUSES[cause][1] if cause in STM_CAUSES else "unknown"


def study_tsx_class(status: int) -> TsxClass:
    """The class in which the study counted an abort on TSX.

    Known from its source (TM_BEGIN in tensorflow/core/kernels/tm.h): capacity is recognised by equality of the whole
    status with _XABORT_CAPACITY, so capacity with any other bit is not capacity; of the rest, whatever has the
    conflict bit is a conflict, before explicit, nested, debug and retry, which have counters of their own. Assumed: its
    figures, which show three classes, add those and the aborts without any bit up as "other".
    """
    if status == CAPACITY:
        return "capacity"
    return "conflict" if status & CONFLICT else "other"


def tsx_class(status: int) -> TsxClass:
    """The study's class that the bits put an abort on TSX in: that of its family."""
    match rtm_family(status):
        case "capacity":
            return "capacity"
        case "conflict":
            return "conflict"
    return "other"


def study_power_class(texasr: int) -> PowerClass:
    """The class in which the study counted an abort on POWER8.

    Known from its source (TM_BEGIN in the POWER version of the same file): conflicts come first, self-induced before
    transactional before non-transactional, then user aborts, then capacity. Assumed: a conflict that is none of the
    three (an invalidated translation), which the source counts as a conflict only, is "other" in the figures.
    """
    if _bits(texasr, 11):
        return "self_conflict"
    if _bits(texasr, 13):
        return "trans_conflict"
    if _bits(texasr, 12):
        return "nontrans_conflict"
    if _bits(texasr, 14):
        return "other"
    if _bits(texasr, 31):
        return "user"
    return "capacity" if _bits(texasr, 10) else "other"


def power_class(texasr: int) -> PowerClass:
    """The study's class that the bits put an abort on POWER in: that of its family, and of the kind of conflict."""
    match power_family(texasr):
        case "explicit" | "lock_subscription":
            return "user"
        case "capacity":
            return "capacity"
        case "conflict":
            kinds: dict[int, PowerClass] = {11: "self_conflict", 13: "trans_conflict", 12: "nontrans_conflict"}
            return next((kind for bit, kind in kinds.items() if _bits(texasr, bit)), "other")
    return "other"


def _bits(texasr: int, first: int, last: int | None = None) -> int:
    """Bits `first` to `last` of TEXASR, by their numbers in the manual: from the highest."""
    last = first if last is None else last
    return texasr >> (63 - last) & (1 << (last - first + 1)) - 1


def untold(status: int) -> Family:
    """The family of an abort of which nobody tells the cause, as of a restart by libitm."""
    return "unknown"


# glibc (tle) tells of no abort at all.
FAMILIES: dict[str, Callable[[int], Family]] = {
    "rtm": rtm_family,
    "power": power_family,
    "stm": stm_family,
    "itm": untold,
    "tle": untold,
}

# The classes of the study's figures: by its own rule, and by what the bits say.
CLASSES: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    "rtm": (study_tsx_class, tsx_class),
    "power": (study_power_class, power_class),
}
