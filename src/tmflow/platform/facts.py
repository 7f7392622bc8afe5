"""The facts that identify a platform, its names and keys, its settings, and bounds that no machine exceeds.

The facts are the same at every call and after every boot; an administrator or an update can change the settings.
"""

from __future__ import annotations

import os
import platform
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tmflow.base.canonical_json import sha256_of
from tmflow.base.files import write_json
from tmflow.platform.sysfiles import Files, Processor, parse_cpuinfo

CPUS = "sys/devices/system/cpu"

# The kernel reports the features of the processor in the auxiliary vector of a process: pairs of words (type, value).
AT_HWCAP2 = 26
PPC_FEATURE2_HTM = 0x4000_0000

ADDR_NO_RANDOMIZE = 0x004_0000

_ISA = {"amd64": "x86_64", "arm64": "aarch64"}


def platform_facts(files: Files | None = None, machine: str | None = None) -> dict[str, Any]:
    """The facts of this machine, or of a recorded one (its files and its `uname -m`). None = unreadable, never 0.

    Cache sizes are those of one instance, of CPU 0. Facts that a setting can change (current frequency, microcode,
    governor) belong to the environment.
    """
    files = files or Files()
    machine = (machine or platform.machine()).lower()
    isa = _ISA.get(machine, machine)
    cpu = parse_cpuinfo(files.text("proc/cpuinfo") or "")
    l1d, l2, l3 = (_cache(files, level) for level in (1, 2, 3))
    memory = re.search(r"^MemTotal:\s*(\d+) kB", files.text("proc/meminfo") or "", re.MULTILINE)
    highest_khz = [files.size(path) for path in files.glob(f"{CPUS}/cpufreq/policy*/cpuinfo_max_freq")]
    return {
        "isa": isa,
        "cpu_vendor": cpu.vendor,
        "cpu_model": cpu.model,
        "cpu_family": cpu.family,
        "cpu_model_no": cpu.model_no,
        "cpu_stepping": cpu.stepping,
        "sockets": _distinct(files, "physical_package_id"),
        "numa_nodes": files.count("sys/devices/system/node/has_cpu"),
        # Without SMT, threads are offline; a core still counts by its remaining thread.
        "cores_physical": _distinct(files, "thread_siblings_list"),
        "threads_logical": files.count(f"{CPUS}/present"),
        "l1d_bytes": files.size(f"{l1d}/size"),
        "l1d_ways": files.size(f"{l1d}/ways_of_associativity"),
        "l2_bytes": files.size(f"{l2}/size"),
        "l3_bytes": files.size(f"{l3}/size"),
        "cacheline_bytes": files.size(f"{l1d}/coherency_line_size"),
        # Rounded up to whole GiB: the kernel reserves a part that varies from boot to boot.
        "memory_bytes": -(-int(memory[1]) * 1024 >> 30) << 30 if memory else None,
        "freq_max_hz": max((1000 * khz for khz in highest_khz if khz is not None), default=None),
        "tm_capability": _tm_capability(isa, cpu, files),
    }


def platform_sha256(facts: dict[str, Any]) -> str:
    """The identity of a platform: the hash of all its facts."""
    return sha256_of(facts)


def display_name(facts: dict[str, Any]) -> str:
    """Describe a platform in a line: processor, sockets, cores, threads and memory, as far as known."""
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
    """Write the facts of this machine, their hash and its display name as JSON."""
    facts = platform_facts()
    name, identity = display_name(facts), platform_sha256(facts)
    write_json(path, {"schema_version": 1, "facts": facts, "sha256": identity, "display_name": name})


# The key of a platform is the column `platform` of every table of runs. Runs come from several sources: those that were
# ingested here, and those of each contribution. Anyone can fabricate the runs of a contribution, so a table names the
# platform once for each source: "slug" for the runs that were ingested here, "slug@contribution" for those of a
# contribution. Selection, grouping and verdicts by platform keep the sources apart. They are joined only on request;
# then the platform is "slug" for all of them.
KEY_SEPARATOR = "@"  # no slug contains it
IDENTITY_DIGITS = 16  # hex digits of a contribution's identity: too many to craft a bundle with those of another


def key_of(slug: str, identity: str | None) -> str:
    """The key of a platform, from its slug and the identity of the contribution of its runs; None for local runs."""
    return slug if identity is None else f"{slug}{KEY_SEPARATOR}{identity[:IDENTITY_DIGITS]}"


def slug_of(key: str) -> str:
    """The slug of the platform, for any source; the platform need not exist."""
    return key.partition(KEY_SEPARATOR)[0]


def contribution_of(key: str) -> str | None:
    """The first digits of the identity of the contribution that brought the runs; None: they were ingested here."""
    return key.partition(KEY_SEPARATOR)[2] or None


def is_local(key: str) -> bool:
    """Whether the runs were ingested here."""
    return contribution_of(key) is None


# No machine exceeds these bounds, which are generous by orders of magnitude. A bundle with values beyond them is
# refused; values beyond them in a database are left out. They exclude numbers that no statistics can be computed from:
# the rate of a run of 5e-324 s is infinite, and so is the ratio of a run of 1e300 s to another.
LONGEST_S = 366 * 86_400.0  # a year: no trial takes so long
STEP_S = 1e-9  # no step, attempt or read takes less: that is a few cycles of a processor
MOST_COUNTED = int(LONGEST_S / STEP_S)


def environment_facts(tm_probe: Mapping[str, Any] | None, files: Files | None = None) -> dict[str, Any]:
    """The settings of this machine, or of a recorded one. None = unreadable.

    tm_probe: {"reported", "tried", "committed", "statuses"} of the native probe, with the numbers of hardware
    transactions that it tried and that committed; None = not probed.
    """
    files = files or Files()
    cpu = parse_cpuinfo(files.text("proc/cpuinfo") or "")
    release = files.text("etc/os-release") or files.text("usr/lib/os-release") or ""
    distribution = re.search(r'^PRETTY_NAME="?([^"\n]+)', release, re.MULTILINE)
    governors = {files.text(path) for path in files.glob(f"{CPUS}/cpufreq/policy*/scaling_governor")}
    no_turbo = files.integer(f"{CPUS}/intel_pstate/no_turbo")
    huge_pages = re.search(r"\[(\w+)\]", files.text("sys/kernel/mm/transparent_hugepage/enabled") or "")
    # The kernel's report on each vulnerability of processors; some mitigations disable TSX.
    vulnerabilities = {path.rpartition("/")[2]: files.text(path) for path in files.glob(f"{CPUS}/vulnerabilities/*")}
    return {
        "os": distribution[1] if distribution else f"{platform.system()} {platform.mac_ver()[0]}".strip(),
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": _libc(),
        "microcode": cpu.microcode,
        "governor": "+".join(sorted(name for name in governors if name)) or None,  # all of them if the cores differ
        "turbo": _switch(files.integer(f"{CPUS}/cpufreq/boost")) if no_turbo is None else not no_turbo,
        "cpus_allowed": cpus_allowed(),
        "smt": _switch(files.integer(f"{CPUS}/smt/active")),
        "thp": huge_pages[1] if huge_pages else None,  # the bracketed word of "always [madvise] never"
        "mitigations": {name: text for name, text in vulnerabilities.items() if text is not None} or None,
        "virtualisation": _virtualisation(files, cpu),
        "aslr": _aslr(files),
        # The number of committed transactions varies from run to run; whether any commits is a setting.
        "tm_enabled": tm_probe["committed"] > 0 if tm_probe else None,
    }


def _libc() -> str | None:
    """The C library at run time, such as "glibc 2.36"."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None


def cpus_allowed() -> int | None:
    """The number of CPUs that this process may use; a container or a batch job may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _switch(value: int | None) -> bool | None:
    return None if value is None else value != 0


def _virtualisation(files: Files, cpu: Processor) -> str | None:
    """The layers between this process and the hardware: 'none', 'vm', 'container' or 'vm+container'."""
    if cpu.flags is not None:
        is_vm = "hypervisor" in cpu.flags
    elif cpu.machine is not None:  # POWER: PowerNV is bare metal, pSeries a guest of a hypervisor
        is_vm = not cpu.machine.startswith("PowerNV")
    elif files.text("proc/device-tree/hypervisor/compatible") is not None:
        is_vm = True
    else:
        return None
    # One of these exists in a container of Docker, Podman or systemd-nspawn.
    marks = (".dockerenv", "run/.containerenv", "run/systemd/container")
    is_container = any(files.data(mark) is not None for mark in marks)
    return "+".join(["vm"] * is_vm + ["container"] * is_container) or "none"


def _aslr(files: Files) -> int | None:
    """The level of address randomisation, 0 to 2; 0 if `setarch -R` disabled it for this process."""
    level, personality = files.integer("proc/sys/kernel/randomize_va_space"), files.text("proc/self/personality")
    off = personality is not None and int(personality, 16) & ADDR_NO_RANDOMIZE
    return 0 if level is not None and off else level


def _distinct(files: Files, leaf: str) -> int | None:
    """Count the distinct values of a topology file over the online CPUs; None if any is unknown (-1)."""
    values = {files.text(path) for path in files.glob(f"{CPUS}/cpu[0-9]*/topology/{leaf}")}
    return None if values & {None, "-1"} else len(values) or None


def _cache(files: Files, level: int) -> str:
    """The folder of CPU 0's data cache of this level; a folder that does not exist if there is none."""
    for path in files.glob(f"{CPUS}/cpu0/cache/index[0-9]*"):
        if files.integer(f"{path}/level") == level and files.text(f"{path}/type") != "Instruction":
            return path
    return f"{CPUS}/cpu0/cache/none"


def _tm_capability(isa: str, cpu: Processor, files: Files) -> str:
    """The reported kind of transactions: 'rtm', 'htm', 'none' or 'unknown'. Only a probe shows whether they commit."""
    if isa == "x86_64" and cpu.flags is not None:
        return "rtm" if "rtm" in cpu.flags else "none"
    if isa == "ppc64le":
        vector = files.data("proc/self/auxv") or b""
        hwcap2 = dict(struct.iter_unpack("=QQ", vector[: len(vector) - len(vector) % 16])).get(AT_HWCAP2)
        if hwcap2 is not None:
            return "htm" if hwcap2 & PPC_FEATURE2_HTM else "none"
    if isa == "aarch64":
        return "none"  # Linux enables no transactional memory on Arm
    return "unknown"
