"""The settings under which a platform ran: what an administrator or an update can change."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from typing import Any

from tmflow.platform import cpuinfo
from tmflow.platform.facts import CPUS
from tmflow.platform.sysfiles import Files

ADDR_NO_RANDOMIZE = 0x004_0000


def environment_facts(tm_probe: Mapping[str, Any] | None, files: Files | None = None) -> dict[str, Any]:
    """The settings of this machine, or of a recorded one. None = unreadable.

    `tm_probe` is the native probe's {"reported", "tried", "committed", "statuses"}: how many hardware transactions it
    tried and how many committed; None = not probed.
    """
    files = files or Files()
    cpu = cpuinfo.parse(files.text("proc/cpuinfo") or "")
    return {
        "os": _os(files),
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": _libc(),
        "microcode": cpu.microcode,
        "governor": _governor(files),
        "turbo": _turbo(files),
        "cpus_allowed": cpus_allowed(),
        "smt": _switch(files.integer(f"{CPUS}/smt/active")),
        "thp": _chosen(files.text("sys/kernel/mm/transparent_hugepage/enabled")),
        "mitigations": _mitigations(files),
        "virtualisation": _virtualisation(files, cpu),
        "aslr": _aslr(files),
        # How many of the probe's transactions commit varies from run to run; whether any does, is a setting.
        "tm_enabled": tm_probe["committed"] > 0 if tm_probe else None,
    }


def _os(files: Files) -> str:
    """The distribution's name for itself, else the system's."""
    release = files.text("etc/os-release") or files.text("usr/lib/os-release") or ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)', release, re.MULTILINE)
    return name[1] if name else f"{platform.system()} {platform.mac_ver()[0]}".strip()


def _libc() -> str | None:
    """The C library at run time, as "glibc 2.36"."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None


def _governor(files: Files) -> str | None:
    """The frequency governor; several, with a + between, if the cores differ."""
    governors = {files.text(path) for path in files.glob(f"{CPUS}/cpufreq/policy*/scaling_governor")}
    return "+".join(sorted(name for name in governors if name)) or None


def _turbo(files: Files) -> bool | None:
    no_turbo = files.integer(f"{CPUS}/intel_pstate/no_turbo")
    return not no_turbo if no_turbo is not None else _switch(files.integer(f"{CPUS}/cpufreq/boost"))


def cpus_allowed() -> int | None:
    """The CPUs that this process may run on: fewer than the platform's in a container or a batch job of a part."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _switch(value: int | None) -> bool | None:
    return None if value is None else value != 0


def _chosen(text: str | None) -> str | None:
    """The bracketed word of "always [madvise] never"."""
    chosen = re.search(r"\[(\w+)\]", text or "")
    return chosen[1] if chosen else None


def _mitigations(files: Files) -> dict[str, str] | None:
    """The kernel's word on each vulnerability of processors; some of its mitigations switch TSX off."""
    paths = files.glob(f"{CPUS}/vulnerabilities/*")
    return {path.rpartition("/")[2]: text for path in paths if (text := files.text(path)) is not None} or None


def _virtualisation(files: Files, cpu: cpuinfo.Processor) -> str | None:
    """'none', or what lies between us and the machine: 'vm', 'container' or 'vm+container'."""
    if (is_vm := _is_vm(files, cpu)) is None:
        return None
    layers = ["vm"] * is_vm + ["container"] * _is_container(files)
    return "+".join(layers) or "none"


def _is_vm(files: Files, cpu: cpuinfo.Processor) -> bool | None:
    if cpu.flags is not None:
        return "hypervisor" in cpu.flags
    if cpu.machine is not None:  # POWER: PowerNV is the bare machine, pSeries a guest of its hypervisor
        return not cpu.machine.startswith("PowerNV")
    if files.text("proc/device-tree/hypervisor/compatible") is not None:
        return True
    return None


def _is_container(files: Files) -> bool:
    """The marks that Docker, Podman and systemd-nspawn leave."""
    marks = (".dockerenv", "run/.containerenv", "run/systemd/container")
    return any(files.data(mark) is not None for mark in marks)


def _aslr(files: Files) -> int | None:
    """Address randomisation of this process: the kernel's level 0 to 2, but 0 if `setarch -R` switched it off."""
    level, personality = files.integer("proc/sys/kernel/randomize_va_space"), files.text("proc/self/personality")
    off = personality is not None and int(personality, 16) & ADDR_NO_RANDOMIZE
    return 0 if level is not None and off else level
