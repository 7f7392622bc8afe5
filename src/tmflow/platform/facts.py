"""The facts that make a machine the platform it is: the same at every call and after every boot."""

from __future__ import annotations

import platform
import re
import struct
from pathlib import Path
from typing import Any

from tmflow.base.canonical_json import sha256_of
from tmflow.base.files import write_json
from tmflow.platform import cpuinfo
from tmflow.platform.sysfiles import Files

CPUS = "sys/devices/system/cpu"

# The kernel tells a process what the processor can do in its auxiliary vector: pairs of words (type, value).
AT_HWCAP2 = 26
PPC_FEATURE2_HTM = 0x4000_0000

_ISA = {"amd64": "x86_64", "arm64": "aarch64"}


def platform_facts(files: Files | None = None, machine: str | None = None) -> dict[str, Any]:
    """The facts of this machine, or of a recorded one (its files and its `uname -m`). None = unreadable, never 0.

    Cache sizes are those of one instance, of CPU 0. What a setting or the moment changes (current frequency, microcode,
    governor) is not here but in the environment.
    """
    files = files or Files()
    machine = (machine or platform.machine()).lower()
    isa = _ISA.get(machine, machine)
    cpu = cpuinfo.parse(files.text("proc/cpuinfo") or "")
    l1d, l2, l3 = (_cache(files, level) for level in (1, 2, 3))
    return {
        "isa": isa,
        "cpu_vendor": cpu.vendor,
        "cpu_model": cpu.model,
        "cpu_family": cpu.family,
        "cpu_model_no": cpu.model_no,
        "cpu_stepping": cpu.stepping,
        "sockets": _distinct(files, "physical_package_id"),
        "numa_nodes": files.count("sys/devices/system/node/has_cpu"),
        # Switching SMT off takes threads offline: a core still counts, by the thread that it has left.
        "cores_physical": _distinct(files, "thread_siblings_list"),
        "threads_logical": files.count(f"{CPUS}/present"),
        "l1d_bytes": files.size(f"{l1d}/size"),
        "l1d_ways": files.size(f"{l1d}/ways_of_associativity"),
        "l2_bytes": files.size(f"{l2}/size"),
        "l3_bytes": files.size(f"{l3}/size"),
        "cacheline_bytes": files.size(f"{l1d}/coherency_line_size"),
        "memory_bytes": _memory_bytes(files),
        "freq_max_hz": _freq_max_hz(files),
        "tm_capability": _tm_capability(isa, cpu, files),
    }


def platform_sha256(facts: dict[str, Any]) -> str:
    """The identity of a platform: the hash over all its facts."""
    return sha256_of(facts)


def display_name(facts: dict[str, Any]) -> str:
    """The platform in a line, for people: processor, sockets, cores, threads, memory, as far as known."""
    parts = [str(facts.get("cpu_model") or f"{facts.get('isa')} processor")]
    for key, unit in (("sockets", "socket"), ("cores_physical", "core"), ("threads_logical", "thread")):
        if count := facts.get(key):
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    if memory := facts.get("memory_bytes"):
        parts.append(f"{memory >> 30} GiB")
    return ", ".join(parts)


def slug(processor: str, threads: int | None) -> str:
    """A short name for URLs and file names: "intel-xeon-e5-2648l-v4-56t"."""
    plain = re.sub(r"\((r|tm)\)|\bcpu\b|@.*", " ", processor.lower())
    words = re.findall(r"[a-z0-9]+", plain) or ["unknown"]
    return "-".join([*words, f"{threads}t"] if threads else words)


def write_platform(path: Path) -> None:
    """Write this machine as JSON: its facts, their hash and its name for people."""
    facts = platform_facts()
    name, identity = display_name(facts), platform_sha256(facts)
    write_json(path, {"schema_version": 1, "facts": facts, "sha256": identity, "display_name": name})


def _distinct(files: Files, leaf: str) -> int | None:
    """How many values that leaf of the topology takes over the online CPUs; None if any does not tell (-1)."""
    values = {files.text(path) for path in files.glob(f"{CPUS}/cpu[0-9]*/topology/{leaf}")}
    return None if values & {None, "-1"} else len(values) or None


def _cache(files: Files, level: int) -> str:
    """The folder of CPU 0's cache of that level that holds data; one that does not exist if there is none."""
    for path in files.glob(f"{CPUS}/cpu0/cache/index[0-9]*"):
        if files.integer(f"{path}/level") == level and files.text(f"{path}/type") != "Instruction":
            return path
    return f"{CPUS}/cpu0/cache/none"


def _memory_bytes(files: Files) -> int | None:
    """The memory in whole GiB, rounded up: the kernel withholds a part, and how much changes from boot to boot."""
    for line in (files.text("proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return -(-int(line.split()[1]) * 1024 >> 30) << 30
    return None


def _freq_max_hz(files: Files) -> int | None:
    """The highest frequency that any core may reach."""
    tops = [files.size(path) for path in files.glob(f"{CPUS}/cpufreq/policy*/cpuinfo_max_freq")]  # in kHz
    return max((1000 * top for top in tops if top is not None), default=None)


def _tm_capability(isa: str, cpu: cpuinfo.Processor, files: Files) -> str:
    """What the processor reports: 'rtm', 'htm', 'none', or 'unknown'. Whether it ever commits, only a probe tells."""
    if isa == "x86_64" and cpu.flags is not None:
        return "rtm" if "rtm" in cpu.flags else "none"
    if isa == "ppc64le":
        hwcap2 = _auxiliary(files.data("proc/self/auxv") or b"").get(AT_HWCAP2)
        if hwcap2 is not None:
            return "htm" if hwcap2 & PPC_FEATURE2_HTM else "none"
    if isa == "aarch64":
        return "none"  # Linux enables no transactional memory on Arm
    return "unknown"


def _auxiliary(vector: bytes) -> dict[int, int]:
    n_bytes = len(vector) - len(vector) % 16
    return dict(struct.iter_unpack("=QQ", vector[:n_bytes]))
