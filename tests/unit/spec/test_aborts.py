"""Raw statuses to families and classes, according to the manuals."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from tmflow.base.paths import project_root
from tmflow.native.registry import resolve
from tmflow.runfile.record import Abort
from tmflow.spec import abort_codes
from tmflow.spec.abort_codes import CAPACITY, CONFLICT, DEBUG, EXPLICIT, NESTED, RETRY

TAKEN = 30 << 24 | EXPLICIT


def texasr(*bits: int, code: int = 0) -> int:
    """A TEXASR with these bits set, numbered as in the manual, and this failure code."""
    return code << 56 | sum(1 << (63 - bit) for bit in bits)


def test_bits_are_those_of_the_compiler() -> None:
    # _XABORT_EXPLICIT and the rest of immintrin.h
    assert (EXPLICIT, RETRY, CONFLICT, CAPACITY, DEBUG, NESTED) == (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize(
    ("status", "family", "study"),
    [
        (TAKEN, "lock_subscription", "other"),
        (TAKEN | RETRY, "lock_subscription", "other"),
        (31 << 24 | EXPLICIT, "explicit", "other"),
        (EXPLICIT, "explicit", "other"),
        (TAKEN | CONFLICT, "lock_subscription", "conflict"),
        (30 << 24 | CONFLICT, "conflict", "conflict"),  # without bit 0 the code means nothing
        (CAPACITY, "capacity", "capacity"),
        (CAPACITY | RETRY, "capacity", "other"),
        (CAPACITY | CONFLICT, "capacity", "conflict"),
        (CAPACITY | NESTED, "capacity", "other"),
        (CONFLICT, "conflict", "conflict"),
        (CONFLICT | RETRY, "conflict", "conflict"),
        (CONFLICT | NESTED, "conflict", "conflict"),
        (DEBUG, "debug", "other"),
        (DEBUG | CAPACITY, "debug", "other"),
        (NESTED, "nested", "other"),
        (RETRY, "unknown", "other"),
        (1 << 6, "unknown", "other"),
        (0, "interrupt_or_fault", "other"),
    ],
)
def test_rtm(status: int, family: str, study: str) -> None:
    assert abort_codes.rtm_family(status) == family
    assert abort_codes.study_tsx_class(status) == study


@pytest.mark.parametrize(
    ("status", "family", "study"),
    [
        (texasr(31, code=30), "lock_subscription", "user"),
        (texasr(31, code=1), "explicit", "user"),
        (texasr(31, code=0xDE), "interrupt_or_fault", "user"),  # the kernel rescheduled
        (texasr(31, code=0xD4 | 1), "interrupt_or_fault", "user"),  # a signal
        (texasr(7, 10), "capacity", "capacity"),
        (texasr(7, 9), "nested", "other"),
        (texasr(11), "conflict", "self_conflict"),
        (texasr(12), "conflict", "nontrans_conflict"),
        (texasr(13), "conflict", "trans_conflict"),
        (texasr(12, 13), "conflict", "trans_conflict"),
        (texasr(14), "conflict", "other"),
        (texasr(16), "conflict", "other"),
        (texasr(10, 13), "capacity", "trans_conflict"),
        (texasr(7, 8), "interrupt_or_fault", "other"),
        (texasr(15), "unknown", "other"),
        (0, "unknown", "other"),
    ],
)
def test_power(status: int, family: str, study: str) -> None:
    assert abort_codes.power_family(status) == family
    assert abort_codes.study_power_class(status) == study


@pytest.mark.parametrize(
    ("status", "bits"),
    [
        (CAPACITY | RETRY, "capacity"),
        (CAPACITY | CONFLICT, "capacity"),
        (CONFLICT | RETRY, "conflict"),
        (TAKEN, "other"),
    ],
)
def test_the_bits_of_rtm_put_an_abort_in_a_class_of_the_study(status: int, bits: str) -> None:
    assert abort_codes.tsx_class(status) == bits


@pytest.mark.parametrize(
    ("status", "bits"),
    [
        (texasr(10), "capacity"),
        (texasr(10, 13), "capacity"),  # the study's rule: a transactional conflict
        (texasr(11), "self_conflict"),
        (texasr(13), "trans_conflict"),
        (texasr(12), "nontrans_conflict"),
        (texasr(14), "other"),
        (texasr(31, code=30), "user"),
        (texasr(31, code=0xDE), "other"),  # the kernel's instruction, not the program's; the study's rule: user
        (texasr(9, 7), "other"),
    ],
)
def test_the_bits_of_power_put_an_abort_in_a_class_of_the_study(status: int, bits: str) -> None:
    assert abort_codes.power_class(status) == bits


def test_the_causes_of_the_stm_are_those_of_the_library() -> None:
    source = project_root() / "native_ops" / "include" / "tmflow" / "stm" / "cause.hpp"
    enumerators = re.findall(r"^  (\w+) = (\d+),", source.read_text(encoding="utf-8"), re.MULTILINE)
    causes = {int(number): name for name, number in enumerators if name != "none"}
    assert causes == {number: name for number, (name, _) in abort_codes.STM_CAUSES.items()}


@pytest.mark.parametrize(
    ("cause", "family"), [(1, "explicit"), (4, "conflict"), (8, "validation"), (9, "conflict"), (99, "unknown")]
)
def test_stm(cause: int, family: str) -> None:
    assert abort_codes.classify("stm", cause) == {"raw_code": f"0x{cause:08x}", "family": family}


def test_every_rtm_status_has_a_family_that_a_run_file_knows() -> None:
    known = set(get_args(Abort.model_fields["family"].annotation))
    assert set(get_args(abort_codes.Family)) <= known
    assert {abort_codes.rtm_family(status) for status in range(128)} <= known


def test_the_whole_status_is_kept_as_text() -> None:
    assert abort_codes.classify("rtm", TAKEN) == {"raw_code": "0x1e000001", "family": "lock_subscription"}
    assert abort_codes.classify("rtm", 0) == {"raw_code": "0x00000000", "family": "interrupt_or_fault"}
    high = texasr(7, 9, code=0x81)  # too high for a signed number
    assert abort_codes.classify("power", high - 2**64) == abort_codes.classify("power", high)
    assert abort_codes.classify("power", high)["raw_code"] == f"0x{high:x}"


def test_only_strategies_that_try_transactions_have_a_mechanism() -> None:
    assert resolve("htm", {"provider": "power"}).mechanism == "power"
    assert resolve("htm", {"budget": 3}).mechanism in abort_codes.FAMILIES
    assert resolve("itm", {"method": "gl_wt"}).mechanism == "itm"
    assert resolve("tle", {}).mechanism == "tle"
    assert resolve("stm", {"design": "wt"}).mechanism == "stm"
    assert resolve("lock", {}).mechanism is None
    assert resolve("tf_lock", {}).mechanism is None


def test_a_restart_of_libitm_has_no_known_cause() -> None:
    assert abort_codes.classify("itm", 0) == {"raw_code": "0x00000000", "family": "unknown"}
