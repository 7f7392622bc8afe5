"""A probe document, its table and its profile, for a measured one (probe.json in this folder)."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tmflow.base.errors import BadInput
from tmflow.probe import document
from tmflow.probe.profile import profile_of, require_new_name
from tmflow.probe.text import table

SAMPLE: dict[str, Any] = json.loads((Path(__file__).parent / "probe.json").read_text())
NO_TM = "this processor does not report transactions"
PARTS = ("capacity", "conflicts", "siblings", "asynchronous", "costs")


def changed(path: str, value: object) -> document.Probe:
    """The sample with the value at `path` replaced."""
    raw = copy.deepcopy(SAMPLE)
    *parents, leaf = path.split(".")
    inner = raw
    for parent in parents:
        inner = inner[parent]
    inner[leaf] = value
    return document.parse(json.dumps(raw), "probe.json")


def without_transactions() -> document.Probe:
    none = {"provider": "rtm", "reported": False, "enabled": False, "commits": False, "tried": 0, "committed": 0}
    return changed(
        "transactions", none | {"statuses": {}} | dict.fromkeys(PARTS) | {"why": dict.fromkeys(PARTS, NO_TM)}
    )


@pytest.fixture
def sample() -> document.Probe:
    return document.Probe.model_validate(SAMPLE)


def test_what_is_written_is_read_again(sample: document.Probe, tmp_path: Path) -> None:
    document.write(tmp_path / "probe.json", sample)
    assert document.parse((tmp_path / "probe.json").read_text(), "probe.json") == sample
    assert json.loads((tmp_path / "probe.json").read_text()) == SAMPLE


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("kind", "tmflow-bench", "kind is 'tmflow-bench', but should be 'tmflow-probe'"),
        ("schema_version", 2, "schema_version is 2, but should be 1"),
        ("extra", 1, "unknown key 'extra'"),
        ("emulates", "provider=rtm", "'emulates' must be given exactly if the evidence is emulated"),
        ("machine.processors", 0, "machine.processors is 0, but should be greater than or equal to 1"),
        ("machine.memory_bandwidth", None, "'memory_bandwidth' must be null exactly if 'why' has a sentence for it"),
        ("transactions.capacity.why", {"ways": "why"}, "'ways' must be null exactly if 'why' has a sentence for it"),
        ("transactions.asynchronous.per_line", 1.5, "per_line is 1.5, but should be less than or equal to 1"),
        ("limits.update_ns", [{"elements": 10, "ns": 0}], "limits.update_ns.0.ns is 0, but should be greater than 0"),
    ],
)
def test_a_wrong_document_is_told_where(path: str, value: object, says: str) -> None:
    with pytest.raises(BadInput, match=re.escape(says)):
        changed(path, value)


def test_a_wrong_text_is_one_sentence() -> None:
    with pytest.raises(BadInput, match=r"probe.json is not JSON"):
        document.parse("{", "probe.json")


def test_the_table_has_every_number_and_every_reason(sample: document.Probe) -> None:
    text = table(sample)
    assert "64 sets of 12 ways, lines of 64 bytes" in text
    assert re.search(r"^readers abort writers +yes$", text, re.MULTILINE)
    assert re.search(
        r"^siblings: not known +alone_lines, .*: this process cannot use two hardware threads of one core",
        text,
        re.MULTILINE,
    )
    assert re.search(r"^update of 7,850 floats +\d+ ns by one thread alone$", text, re.MULTILINE)
    assert f"transactions: not known  {', '.join(sorted(PARTS))}: {NO_TM}" in re.sub(
        r" {3,}", "  ", table(without_transactions())
    )


def test_a_profile_says_how_each_number_was_measured(sample: document.Probe) -> None:
    profile = profile_of(sample, "this-machine")
    per_line = SAMPLE["transactions"]["asynchronous"]["per_line"]
    assert profile.machine_text() == (
        f"provider=rtm;line_bytes=64;sets=64;ways=12;reads_fill=1;siblings=1;asynchronous={per_line}"
    )
    assert profile.cache is not None
    for number in (
        profile.line,
        profile.cache.sets,
        profile.cache.ways,
        profile.cache.reads_fill,
        profile.asynchronous,
    ):
        assert number.source.startswith(f"measured by tmflow probe {sample.tmflow} on ")
    assert profile.siblings.source.startswith("estimate: ")


def test_entries_and_siblings_make_a_profile_too() -> None:
    shared = {"alone_lines": 64, "beside_transactions_lines": 33, "beside_loads_lines": 64, "sharing_threads": 8}
    found = changed("transactions.siblings", {**shared, "why": {}})
    capacity = found.transactions.capacity
    assert capacity is not None
    few = capacity.model_copy(update={"shape": "entries", "ways": 64, "sets": 1, "line_bytes": 128, "write_lines": 64})
    transactions = found.transactions.model_copy(update={"capacity": few, "provider": "power"})
    profile = profile_of(found.model_copy(update={"transactions": transactions}), "this-machine")
    assert profile.machine_text().startswith("provider=power;line_bytes=128;entries=64;siblings=8;")
    assert "64 lines can be written alone, and 33 while another thread" in profile.siblings.source


def test_no_profile_without_transactions() -> None:
    with pytest.raises(BadInput, match=rf"^no profile .*: its capacity is not known \({NO_TM}\)\.$"):
        profile_of(without_transactions(), "this-machine")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("This Machine", "should be of lower-case letters, digits and hyphens"),
        ("../evil", "should be of lower-case letters, digits and hyphens"),
        ("intel-tsx-study", "data/platforms/intel-tsx-study.yaml exists"),
    ],
)
def test_a_profile_has_a_name_of_its_own(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        require_new_name(name)


@pytest.mark.parametrize("seconds", [4.9, 601, float("nan")])
def test_the_time_is_limited(seconds: float) -> None:
    with pytest.raises(BadInput, match=r"--seconds is .*, but should be 5 to 600"):
        document.probe(seconds)
