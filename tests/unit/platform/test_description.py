"""Facts of machines in plain words; an unreadable fact is unknown, never 0 or no."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from tmflow.platform.description import UNKNOWN, described, format_fact, transactions

TAA = json.dumps({"tsx_async_abort": "Mitigation: TSX disabled"})


def settings(*enabled: bool | None, mitigations: str | None = None) -> pd.DataFrame:
    column = pd.Series(list(enabled), dtype="boolean")
    return pd.DataFrame({"tm_enabled": column, "mitigations_json": [mitigations] * len(column)})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("l1d_bytes", 48 * 1024, "48 KiB"),
        ("l2_bytes", 3 << 19, "1.5 MiB"),
        ("memory_bytes", 24 << 30, "24 GiB"),
        ("cacheline_bytes", 64, "64 bytes"),
        ("freq_max_hz", 3_500_000_000, "3.5 GHz"),
        ("l3_bytes", None, UNKNOWN),
        ("turbo", pd.NA, UNKNOWN),
        ("turbo", False, "no"),
        ("aslr", 0, "0"),
        ("mitigations", {"mds": "None"}, '{"mds": "None"}'),
    ],
)
def test_a_fact_in_words(name: str, value: Any, words: str) -> None:
    assert format_fact(name, value) == words


def test_every_fact_is_there_known_to_this_version_or_not() -> None:
    table = described({"cpu_model": "A CPU", "colour": "green"}).set_index("fact")["value"]
    assert table["Processor"] == "A CPU"
    assert table["L3 cache, one instance"] == UNKNOWN
    assert table["colour"] == "green"


@pytest.mark.parametrize(
    ("facts", "enabled", "answer"),
    [
        ({"tm_capability": "rtm"}, [True, None], "Yes: it reports Intel TSX (RTM), and transactions"),
        ({"tm_capability": "htm"}, [True, False], "committed under 1 of 2 settings that were probed."),
        ({"tm_capability": "rtm"}, [False], "No: it reports Intel TSX (RTM), but no transaction of a probe"),
        ({"tm_capability": "rtm"}, [None], "Unknown: it reports Intel TSX (RTM); whether a transaction ever commits"),
        ({"tm_capability": "none", "isa": "x86_64"}, [None], "No: the processor reports no RTM"),
        ({"tm_capability": "none", "isa": "aarch64"}, [None], "No: Linux enables none on Arm."),
        ({"tm_capability": "none", "isa": "ppc64le"}, [], "No: the processor reports no hardware transactions."),
        ({"tm_capability": "unknown", "isa": "riscv64"}, [], "Unknown: whether"),
    ],
)  # fmt: skip
def test_whether_it_can_run_transactions(facts: dict[str, Any], enabled: list[bool | None], answer: str) -> None:
    assert answer in transactions(facts, settings(*enabled))


def test_what_the_kernel_says_of_tsx_is_told_where_there_are_no_transactions() -> None:
    assert transactions({"tm_capability": "rtm"}, settings(False, mitigations=TAA)).endswith(
        "The kernel says of TSX's asynchronous abort: Mitigation: TSX disabled."
    )
