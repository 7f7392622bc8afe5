"""Documents of the static program: JSON, hashes, zips, facts and machine states, all equal to Python's.

A test program answers questions, one per line; it runs here and in the emulators of other machines.
"""

from __future__ import annotations

import hashlib
import json
import platform
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import cpp
import numpy as np
import pytest
from runner import EMULATORS, FOREIGN, Ask, Program, asking

from tests.unit.platform import recorded_machines as recorded
from tmflow.base.canonical_json import canonical_json
from tmflow.platform.facts import display_name, environment_facts, platform_facts, platform_sha256
from tmflow.platform.software import software
from tmflow.platform.sysfiles import Files
from tmflow.runner import machine_load as machine

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["here", *FOREIGN])
def ask(request: pytest.FixtureRequest, builds: cpp.Builds) -> Ask:
    return asking(
        Program(builds.built(request.param, "runner_formats") / "runner" / "runner_formats", EMULATORS[request.param])
    )


# --- JSON ------------------------------------------------------------------------------------------------------------

EDGES = [
    *(0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e17, 123456789012345680.0, 1e-4, 1e-5, 0.00012345, 1.5e300, 1e22, 5e-324),
    *(1.7976931348623157e308, 2.2250738585072014e-308, 9007199254740993.0, 9999999999999998.0, 1 / 3, 100.0, -12.5),
]


def spelt(ask: Ask, *values: Any) -> list[str]:
    return ask("canonical", *({"text": json.dumps(value)} for value in values))


def test_numbers_are_spelt_as_python_spells_them(ask: Ask) -> None:
    bits = np.random.default_rng(7).integers(0, 2**64, 20_000, dtype=np.uint64)
    anything = [value for value in bits.view(np.float64).tolist() if np.isfinite(value)]
    decimals = [round(value, digits) for digits in range(17) for value in np.random.default_rng(8).random(200).tolist()]
    whole = [0, -1, 2**63 - 1, -(2**63), 10**18, *range(-20, 20)]
    for values in (EDGES, anything, decimals, whole):
        (said,) = spelt(ask, values)
        assert said == canonical_json(values)


def test_texts_and_names_are_spelt_as_python_spells_them(ask: Ask) -> None:
    characters = [chr(code) for code in (*range(0x300), *range(0xD7F0, 0xD800), *range(0xE000, 0xE010), 0xFFFF)]
    characters += ["\U00010000", "\U0001f600", "\U0010ffff"]
    names = {name: index for index, name in enumerate([*characters, "", "a", "aa", "b", "\uffff\u0001", "Z"])}
    nested = {"a": [{}, [], [[]], {"b": {"c": None}}, True, False, None, "", {"": 0}]}
    for value in ("".join(characters), names, nested):
        assert spelt(ask, value) == [canonical_json(value)]
        as_it_is = ask("canonical", {"text": json.dumps(value, ensure_ascii=False, indent=2)})
        assert as_it_is == [canonical_json(value)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no value"),
        ("nul", "no value"),
        ("NaN", "no value"),
        ("-Infinity", "no value"),
        ("1 2", "text after the value"),
        ("01", "leading 0"),
        ("1.", "no value"),
        (".5", "no value"),
        ("+1", "no value"),
        ("1e", "no value"),
        ("1e400", "too large"),
        ("9223372036854775808", "64 bits"),
        ("[1,]", "no value"),
        ("[1", "missing"),
        ('{"a":1,}', "missing"),
        ('{"a" 1}', "missing"),
        ('{"a":1,"a":2}', "twice"),
        ("{1:2}", "missing"),
        ('"a', "not terminated"),
        ('"\\x"', "escape"),
        ('"\\u12"', "four"),
        ('"\\ud800"', "surrogate"),
        ('"\\ud800\\u0041"', "surrogate"),
        ('"\n"', "control"),
        ("'a'", "no value"),
        ("[" * 101 + "]" * 101, "levels"),
        ("[" * 100_000, "levels"),
        ('{"a":' * 100_000, "levels"),
    ],
)
def test_what_is_no_json_is_refused(ask: Ask, text: str, why: str) -> None:
    (said,) = ask("canonical", {"text": text})
    assert why in said["error"]
    assert "at byte" in said["error"]


def test_a_hundred_levels_are_read(ask: Ask) -> None:
    text = "[" * 100 + "]" * 100
    assert ask("canonical", {"text": text}) == [text]


# --- hashes and zips -------------------------------------------------------------------------------------------------


def test_the_hashes_are_pythons(ask: Ask) -> None:
    texts = ["", "abc", *("a" * length for length in (55, 56, 63, 64, 65, 119, 120, 1000)), "ä" * 70_000, "\0" * 64]
    questions = [{"text": text} for text in texts]
    assert ask("sha256", *questions) == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    assert ask("crc32", *questions) == [zlib.crc32(text.encode()) for text in texts]


def test_a_zip_is_read_by_python_and_has_the_same_bytes_every_time(ask: Ask, tmp_path: Path) -> None:
    members = {"runs/b.jsonl": "line\n" * 1000, "runs/ä.jsonl": "\0\n", "a": "", "manifest.json": "{}"}
    paths = [tmp_path / name for name in ("new/one.zip", "two.zip")]
    assert ask("zip", *({"path": str(path), "members": members} for path in paths)) == [None, None]
    with zipfile.ZipFile(paths[0]) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted(members)
        assert {name: archive.read(name).decode() for name in members} == members
        for info in archive.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert (info.external_attr >> 16, info.create_system) == (0o100644, 3)
            assert info.compress_type == zipfile.ZIP_STORED
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new", "two.zip"]


def test_a_zip_that_cannot_be_written_leaves_nothing(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("is no folder")
    (said,) = ask("zip", {"path": str(tmp_path / "file" / "one.zip"), "members": {"a": ""}})
    assert said["error"] == f"{tmp_path}/file/one.zip cannot be written: Not a directory"
    (tmp_path / "folder").mkdir()
    (said,) = ask("zip", {"path": str(tmp_path / "folder"), "members": {"a": ""}})
    assert "cannot be written: Is a directory" in said["error"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]


# --- machines --------------------------------------------------------------------------------------------------------

CPUINFO = "proc/cpuinfo"
AUXV = "proc/self/auxv"
BROKEN: recorded.Tree = {
    CPUINFO: b"model name\t: caf\xe9 \xff\xe2\x82\nflags",
    "proc/meminfo": "MemFree: 1 kB\nMemTotal: 1048577 kB\n",
    f"{recorded.CPUS}/present": "0-3,8,10-11\n",
    f"{recorded.CPUS}/cpu0/cache/index0/level": "1 1",
    "etc/os-release": "PRETTY_NAME=\n",
}
TREES: dict[str, tuple[recorded.Tree, str]] = {
    "x86": (recorded.X86, "x86_64"),
    "x86 without a line of flags": ({**recorded.X86, CPUINFO: recorded.X86_CPUINFO.split("flags")[0]}, "AMD64"),
    "x86 without rtm": ({**recorded.X86, CPUINFO: recorded.X86_CPUINFO.replace(" rtm", "")}, "x86_64"),
    "x86 with strange numbers": ({CPUINFO: recorded.X86_CPUINFO.replace(": 79", ": unknown")}, "x86_64"),
    "power": (recorded.POWER, "ppc64le"),
    "power without transactions": ({**recorded.POWER, AUXV: struct.pack("=4Q", 26, 0xAF000000, 0, 0)}, "ppc64le"),
    "power that does not tell": ({**recorded.POWER, AUXV: b"\x1a"}, "ppc64le"),
    "arm": (recorded.ARM, "aarch64"),
    "arm of another vendor": ({CPUINFO: recorded.ARM_CPUINFO.replace(": 0x41", ": 0xc0")}, "arm64"),
    "arm of nobody": ({CPUINFO: recorded.ARM_CPUINFO.replace(": 0x41", ": 0x99")}, "aarch64"),
    "arm in words": ({CPUINFO: recorded.ARM_CPUINFO.replace(": 8", ": AArch64").split("CPU part")[0]}, "aarch64"),
    "nothing": ({}, "riscv64"),
    "broken": (BROKEN, "x86_64"),
}


def test_recorded_machines_have_the_facts_that_python_finds(ask: Ask, tmp_path: Path) -> None:
    questions, expected = [], []
    for number, (tree, isa) in enumerate(TREES.values()):
        root = tmp_path / str(number)
        root.mkdir()
        facts = platform_facts(recorded.lay_out(root, tree), isa)
        questions.append({"root": str(root), "machine": isa})
        expected.append({"facts": facts, "sha256": platform_sha256(facts), "name": display_name(facts)})
    assert dict(zip(TREES, ask("platform", *questions), strict=True)) == dict(zip(TREES, expected, strict=True))


SETTINGS: dict[str, recorded.Tree] = {
    "host": recorded.HOST,
    "two governors": {**recorded.HOST, f"{recorded.CPUS}/cpufreq/policy1/scaling_governor": "powersave"},
    "no smt": {**recorded.HOST, f"{recorded.CPUS}/smt/active": "0"},
    "not randomised": {**recorded.HOST, "proc/self/personality": "00040000"},
    "vm": {**recorded.HOST, CPUINFO: recorded.X86_CPUINFO.replace("rdseed", "hypervisor")},
    "container": {**recorded.HOST, ".dockerenv": ""},
    "lpar": {**recorded.HOST, CPUINFO: recorded.POWER_CPUINFO, "run/systemd/container": "lxc"},
    "bare power": {**recorded.HOST, CPUINFO: recorded.POWER_CPUINFO.replace("CHRP", "PowerNV")},
    "boost": {f"{recorded.CPUS}/cpufreq/boost": "1"},
    "guest of kvm on arm": {CPUINFO: recorded.ARM_CPUINFO, "proc/device-tree/hypervisor/compatible": b"linux,kvm\0"},
    "release elsewhere": {"usr/lib/os-release": "NAME=x\nPRETTY_NAME=Plain words\n"},
    "nothing": {},
    "broken": BROKEN,
}
OF_THIS_PROCESS = ("kernel", "libc")  # an emulator has its own, or passes on that of the host


def test_recorded_machines_have_the_settings_that_python_finds(ask: Ask, tmp_path: Path) -> None:
    questions, expected = [], []
    for number, tree in enumerate(SETTINGS.values()):
        root = tmp_path / str(number)
        root.mkdir()
        questions.append({"root": str(root)})
        expected.append(environment_facts(None, recorded.lay_out(root, tree)))
    found = ask("environment", *questions)
    for facts in (*found, *expected):
        assert all(facts.pop(name) for name in OF_THIS_PROCESS)
    assert dict(zip(SETTINGS, found, strict=True)) == dict(zip(SETTINGS, expected, strict=True))


@pytest.fixture
def of_machine(ask: Ask, request: pytest.FixtureRequest) -> str:
    """The machine on which `ask` runs."""
    machine: str = request.node.callspec.params["ask"]
    return machine


def test_a_build_without_eigen_says_so_where_its_kernel_is_asked_for(ask: Ask, of_machine: str) -> None:
    said = ask("why_not", *({"strategy": "lock", "parameter": f"kernel={kernel}"} for kernel in ("plain", "eigen")))
    absent = "kernel eigen is not in this build, because Eigen was not installed (Debian: libeigen3-dev)"
    assert said == [None, absent if of_machine == "aarch64" else None]


# --- this machine ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here(builds: cpp.Builds) -> Ask:
    return asking(Program(builds.built("here", "runner_formats") / "runner" / "runner_formats"))


def test_this_machine_is_the_same_platform_in_the_same_environment(here: Ask) -> None:
    assert here("this_platform") == [platform_facts()]
    assert here("environment", {"root": "/"}) == [environment_facts(None)]


def test_the_software_is_what_was_compiled_in(here: Ask) -> None:
    (said,) = here("software")
    ours = software("any", "any")
    assert set(said) == set(ours)
    of_the_checkout = ("tmflow", "git_commit", "git_dirty")
    assert [said[name] for name in of_the_checkout] == [ours[name] for name in of_the_checkout]
    assert said["compiler"].startswith(("GNU ", "Clang "))
    assert "-O3" in said["cflags"].split()
    assert [said[name] for name in ("python", "tensorflow", "numpy", "lock_sha256")] == [None] * 4


STAT = "cpu  {user} 0 100 5000 10 0 5 {steal} 0 0\ncpu0 0 0 50 2500 5 0 5 0 0 0\ncpu1 0 0 50 2500 5 0 0 0 0 0\nintr 1\n"


def as_json(sample: machine.Sample, stat: str | None) -> dict[str, Any]:
    clocks = {name: getattr(sample.clocks, name) for name in ("monotonic_s", "boot_s", "wall_s")}
    return {**clocks, "own_s": sample.own_s, "load1": sample.load1, "stat": stat}


def test_what_else_the_machine_did_is_told_as_python_tells_it(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "TICKS_PER_S", 100)
    texts = {"0": STAT.format(user=0, steal=0), "500": STAT.format(user=500, steal=0)}
    texts |= {"steal": STAT.format(user=200, steal=60), "little": STAT.format(user=200, steal=30), "none": "cpu 1 2"}

    def sample(
        at_s: float, stat: str | None, own_s: float = 0.0, slept_s: float = 0.0, set_s: float = 0.0
    ) -> tuple[machine.Sample, dict[str, Any]]:
        clocks = machine.Clocks(at_s, 1000 + at_s + slept_s, 1.7e9 + at_s + slept_s + set_s)
        times = machine.CpuTimes.parse(texts[stat]) if stat else None
        made = machine.Sample(clocks, own_s, None if at_s == 3 else 0.25, times)
        return made, as_json(made, texts[stat] if stat else None)

    pairs = [
        (sample(0, "0"), sample(10, "500", own_s=2.0)),
        (sample(0, "0"), sample(10, "500", own_s=5.0)),
        (sample(0, "0"), sample(10, "500", own_s=50.0)),
        (sample(0, "0"), sample(10, "steal", own_s=2.0)),
        (sample(0, "0"), sample(10, "little", own_s=2.0)),
        (sample(0, "0"), sample(10, "0")),
        (sample(0, "0"), sample(0.4, "500")),
        (sample(0, "0"), sample(0.4, "500", slept_s=3600)),
        (sample(0, "0"), sample(10, "500", own_s=5, set_s=-30)),
        (sample(0, "0"), sample(10, "500", own_s=5, set_s=30)),
        (sample(0, "0"), sample(3, "500", own_s=3, slept_s=0.05)),
        (sample(0, "none"), sample(10, "500")),
        (sample(0, None), sample(10, "500")),
        (sample(0, "0"), sample(10, None, slept_s=1)),
    ]
    questions = [{"before": before[1], "after": after[1]} for before, after in pairs]
    expected = [machine.between(before[0], after[0]) for before, after in pairs]
    assert {state["disturbed"] for state in expected} == {True, False, None}
    for said, state in zip(ask("between", *questions), expected, strict=True):
        assert said == pytest.approx(state, abs=1e-9)


def test_a_sample_of_this_machine(ask: Ask, tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT.format(user=1, steal=2))
    real, recorded_one, none = ask("sample", {"stat": "/proc/stat"}, {"stat": str(stat)}, {"stat": str(tmp_path)})
    assert real["cpus"] == len([row for row in Path("/proc/stat").read_text().splitlines() if row[:3] == "cpu"]) - 1
    assert (recorded_one["cpus"], none["cpus"]) == (2, None)
    assert 0 <= real["own_s"] < 60


def test_it_names_its_machine_as_uname_does(ask: Ask, of_machine: str) -> None:
    (facts,) = ask("this_platform")
    assert facts["isa"] == (platform.machine() if of_machine == "here" else of_machine)
    assert Files().count("sys/devices/system/cpu/present") == facts["threads_logical"]
