"""The platform probe, on recorded trees of four machines and on this one."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from recorded_machines import ARM, ARM_CPUINFO, POWER, X86, X86_CPUINFO, Tree, lay_out

from tmflow.base.canonical_json import canonical_json
from tmflow.platform.facts import display_name, platform_facts, platform_sha256, write_platform
from tmflow.platform.sysfiles import Processor, parse_cpuinfo


def test_a_machine_with_two_sockets_and_tsx(tmp_path: Path) -> None:
    facts = platform_facts(lay_out(tmp_path, X86), "x86_64")
    assert facts == {
        "isa": "x86_64",
        "cpu_vendor": "GenuineIntel",
        "cpu_model": "Intel(R) Xeon(R) CPU E5-2648L v4 @ 1.80GHz",
        "cpu_family": 6,
        "cpu_model_no": 79,
        "cpu_stepping": 1,
        "sockets": 2,
        "numa_nodes": 2,
        "cores_physical": 4,
        "threads_logical": 8,
        "l1d_bytes": 32 << 10,
        "l1d_ways": 8,
        "l2_bytes": 256 << 10,
        "l3_bytes": 35 << 20,
        "cacheline_bytes": 64,
        "memory_bytes": 32 << 30,
        "freq_max_hz": 2_500_000_000,
        "tm_capability": "rtm",
    }
    assert display_name(facts) == ("Intel(R) Xeon(R) CPU E5-2648L v4 @ 1.80GHz, 2 sockets, 4 cores, 8 threads, 32 GiB")


def test_a_power8_with_smt_off(tmp_path: Path) -> None:
    facts = platform_facts(lay_out(tmp_path, POWER), "ppc64le")
    expected = {
        "isa": "ppc64le",
        "cpu_vendor": "IBM",
        "cpu_model": "POWER8 (architected)",
        "cpu_family": None,
        "cpu_model_no": 0x004B,
        "cpu_stepping": 0x0201,
        "sockets": 2,
        "numa_nodes": 2,
        "cores_physical": 2,
        "threads_logical": 16,
        "l1d_bytes": 64 << 10,
        "l1d_ways": None,  # the kernel's 0: not reported
        "l2_bytes": None,
        "cacheline_bytes": 128,
        "memory_bytes": 254 << 30,
        "tm_capability": "htm",
    }
    assert {key: facts[key] for key in expected} == expected


def test_an_arm_board_whose_firmware_tells_no_package(tmp_path: Path) -> None:
    facts = platform_facts(lay_out(tmp_path, ARM), "aarch64")
    expected = {
        "cpu_vendor": "ARM",
        "cpu_model": "Cortex-A76",
        "cpu_family": 8,
        "cpu_model_no": 0xD0B,
        "cpu_stepping": 0x41,
        "sockets": None,
        "numa_nodes": None,
        "cores_physical": 4,
        "threads_logical": 4,
        "memory_bytes": 8 << 30,
        "freq_max_hz": None,
        "tm_capability": "none",
    }
    assert {key: facts[key] for key in expected} == expected


def test_a_machine_without_proc_and_sys_has_unknown_facts_not_zeros(tmp_path: Path) -> None:
    facts = platform_facts(lay_out(tmp_path, {}), "arm64")
    assert facts.pop("isa") == "aarch64"
    assert facts.pop("tm_capability") == "none"
    assert set(facts.values()) == {None}
    assert display_name({**facts, "isa": "aarch64"}) == "aarch64 processor"


@pytest.mark.parametrize(
    ("isa", "change", "capability"),
    [
        ("x86_64", {"proc/cpuinfo": X86_CPUINFO.replace(" rtm", "")}, "none"),
        ("x86_64", {"proc/cpuinfo": ""}, "unknown"),
        ("ppc64le", {"proc/self/auxv": struct.pack("=4Q", 26, 0xAF000000, 0, 0)}, "none"),
        ("ppc64le", {"proc/self/auxv": struct.pack("=4Q", 16, 0xDC0065C2, 0, 0)}, "unknown"),
        ("ppc64le", {"proc/self/auxv": b"\x1a"}, "unknown"),
        ("riscv64", {}, "unknown"),
    ],
)
def test_the_transactional_memory_that_the_processor_reports(
    tmp_path: Path, isa: str, change: Tree, capability: str
) -> None:
    base = {"x86_64": X86, "ppc64le": POWER}.get(isa, {})
    assert platform_facts(lay_out(tmp_path, {**base, **change}), isa)["tm_capability"] == capability


def test_what_changes_from_moment_to_moment_is_no_fact(tmp_path: Path) -> None:
    before = platform_sha256(platform_facts(lay_out(tmp_path, X86), "x86_64"))
    later = X86 | {
        "proc/cpuinfo": X86_CPUINFO.replace("1200.117", "2500.000")
        .replace("3600.06", "3599.87")
        .replace("0xb000040", "1"),
        "proc/meminfo": "MemTotal:       32779012 kB\n",
    }
    assert platform_sha256(platform_facts(lay_out(tmp_path, later), "x86_64")) == before
    bigger = later | {"proc/meminfo": "MemTotal:       65700000 kB\n"}
    assert platform_sha256(platform_facts(lay_out(tmp_path, bigger), "x86_64")) != before


def test_an_arm_core_that_is_not_known_keeps_its_numbers() -> None:
    cpu = parse_cpuinfo(ARM_CPUINFO.replace("0xd0b", "0xfff").replace(": 0x41", ": 0xc0"))
    assert (cpu.vendor, cpu.model, cpu.model_no) == ("Ampere", "Ampere part 0xfff", 0xFFF)
    assert parse_cpuinfo(ARM_CPUINFO.replace(": 0x41", ": 0x99")).vendor == "0x99"


@pytest.mark.parametrize("text", ["", "no colon here", "processor\t: 0\nhart\t: 0\nisa\t: rv64imafdc"])
def test_a_cpuinfo_of_another_kind_says_nothing(text: str) -> None:
    assert parse_cpuinfo(text) == Processor()


@pytest.mark.parametrize(
    ("text", "count"), [("0", 1), ("0-3", 4), ("0-3,8,10-11", 7), ("", None), ("none", None), ("0-", None)]
)
def test_lists_of_numbers_are_counted(tmp_path: Path, text: str, count: int | None) -> None:
    assert lay_out(tmp_path, {"list": text}).count("list") == count


@pytest.mark.parametrize(("text", "size"), [("48K", 49_152), ("2M", 2 << 20), ("64", 64), ("0", None), ("1 K", None)])
def test_sizes_are_read_with_their_unit(tmp_path: Path, text: str, size: int | None) -> None:
    assert lay_out(tmp_path, {"size": text}).size("size") == size


def test_this_machine_is_the_same_at_every_call_and_its_facts_are_json() -> None:
    facts = platform_facts()
    assert platform_sha256(facts) == platform_sha256(platform_facts())
    assert json.loads(canonical_json(facts)) == facts
    assert facts["tm_capability"] in {"none", "rtm", "htm", "unknown"}
    assert all(value is None or isinstance(value, str) or value >= 0 for value in facts.values())


def test_the_probe_writes_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "platform.json"
    write_platform(path)
    written = json.loads(path.read_text())
    facts = platform_facts()
    assert written == {
        "schema_version": 1,
        "facts": facts,
        "sha256": platform_sha256(facts),
        "display_name": display_name(facts),
    }
    assert list(path.parent.iterdir()) == [path]
