"""Machines as Linux describes them in its files: a Xeon with TSX, a POWER8, an Arm board."""

from __future__ import annotations

import struct
from pathlib import Path

from tmflow.platform.sysfiles import Files

X86_CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 79
model name\t: Intel(R) Xeon(R) CPU E5-2648L v4 @ 1.80GHz
stepping\t: 1
microcode\t: 0xb000040
cpu MHz\t\t: 1200.117
flags\t\t: fpu vme sse2 ht avx2 hle rtm rdseed
bugs\t\t: taa
bogomips\t: 3600.06
"""

POWER_CPUINFO = """\
processor\t: 0
cpu\t\t: POWER8 (architected), altivec supported
clock\t\t: 3425.000000MHz
revision\t: 2.1 (pvr 004b 0201)

processor\t: 1
cpu\t\t: POWER8 (architected), altivec supported
clock\t\t: 3425.000000MHz
revision\t: 2.1 (pvr 004b 0201)

timebase\t: 512000000
platform\t: pSeries
model\t\t: IBM,8284-22A
machine\t\t: CHRP IBM,8284-22A
MMU\t\t: Hash
"""

ARM_CPUINFO = """\
processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm aes crc32 atomics cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: 0xd0b
CPU revision\t: 1
"""

CPUS = "sys/devices/system/cpu"
Tree = dict[str, str | bytes]


def cache(index: int, level: int, kind: str, size: str, ways: int, line: int) -> Tree:
    folder = f"{CPUS}/cpu0/cache/index{index}"
    values = {"level": level, "type": kind, "size": size, "ways_of_associativity": ways, "coherency_line_size": line}
    return {f"{folder}/{name}": f"{value}\n" for name, value in values.items()}


def threads(*packages_and_siblings: tuple[int, str]) -> Tree:
    files: Tree = {}
    for cpu, (package, siblings) in enumerate(packages_and_siblings):
        files[f"{CPUS}/cpu{cpu}/topology/physical_package_id"] = f"{package}\n"
        files[f"{CPUS}/cpu{cpu}/topology/thread_siblings_list"] = f"{siblings}\n"
    return files


X86: Tree = {
    "proc/cpuinfo": X86_CPUINFO,
    "proc/meminfo": "MemTotal:       32781436 kB\nMemFree:        1 kB\n",
    f"{CPUS}/present": "0-7\n",
    "sys/devices/system/node/has_cpu": "0-1\n",
    f"{CPUS}/cpufreq/policy0/cpuinfo_max_freq": "2500000\n",
    f"{CPUS}/cpufreq/policy1/cpuinfo_max_freq": "2400000\n",
    **threads((0, "0,4"), (0, "1,5"), (1, "2,6"), (1, "3,7"), (0, "0,4"), (0, "1,5"), (1, "2,6"), (1, "3,7")),
    **cache(0, 1, "Data", "32K", 8, 64),
    **cache(1, 1, "Instruction", "32K", 8, 64),
    **cache(2, 2, "Unified", "256K", 8, 64),
    **cache(3, 3, "Unified", "35M", 20, 64),
}

# SMT is off: of the 8 threads of each core, one is online and the others have no topology.
POWER: Tree = {
    "proc/cpuinfo": POWER_CPUINFO,
    "proc/meminfo": "MemTotal:       266338304 kB\n",
    "proc/self/auxv": struct.pack("=6Q", 16, 0xDC0065C2, 26, 0xEF000000, 0, 0),
    f"{CPUS}/present": "0-15\n",
    "sys/devices/system/node/has_cpu": "0,16\n",
    **threads((0, "0"), (16, "8")),
    **cache(0, 1, "Data", "64K", 0, 128),
    **cache(1, 1, "Instruction", "32K", 8, 128),
}

ARM: Tree = {
    "proc/cpuinfo": ARM_CPUINFO,
    "proc/meminfo": "MemTotal:        8257456 kB\n",
    f"{CPUS}/present": "0-3\n",
    **threads((-1, "0"), (-1, "1"), (-1, "2"), (-1, "3")),
}

# The settings of a machine.
HOST: Tree = {
    "proc/cpuinfo": X86_CPUINFO,
    "etc/os-release": 'NAME="Debian GNU/Linux"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    f"{CPUS}/cpufreq/policy0/scaling_governor": "performance\n",
    f"{CPUS}/cpufreq/policy1/scaling_governor": "performance\n",
    f"{CPUS}/intel_pstate/no_turbo": "1\n",
    f"{CPUS}/smt/active": "1\n",
    f"{CPUS}/vulnerabilities/tsx_async_abort": "Mitigation: TSX disabled\n",
    f"{CPUS}/vulnerabilities/mds": "Not affected\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/self/personality": "00000000\n",
}


def lay_out(root: Path, tree: Tree) -> Files:
    """Write the tree's files under `root`."""
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Files(root)
