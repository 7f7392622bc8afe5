"""The small text files in which Linux describes the machine, such as /proc/cpuinfo. None means unreadable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Files:
    """The files under `root`: those of this machine, or recorded files of another. Paths are relative to `root`."""

    root: Path = Path("/")

    def data(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return None

    def text(self, path: str) -> str | None:
        """The content without surrounding white space (and the NUL of the device tree); None also if it is empty."""
        data = self.data(path)
        return None if data is None else data.decode(errors="replace").strip(" \t\n\0") or None

    def integer(self, path: str) -> int | None:
        text = self.text(path)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None

    def size(self, path: str) -> int | None:
        """A size or count in the kernel's format (48K, 2M, 64); the kernel writes 0 for an unknown value."""
        match = re.fullmatch(r"(\d+)([KMG]?)", self.text(path) or "")
        return int(match[1]) * _UNITS[match[2]] or None if match else None

    def count(self, path: str) -> int | None:
        """Count the numbers in a list such as 0-3,8,10-11."""
        text = self.text(path)
        if text is None or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
            return None
        ranges = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return sum(part[-1] - part[0] + 1 for part in ranges)

    def glob(self, pattern: str) -> Iterator[str]:
        """The matching paths, sorted by name."""
        return (str(path.relative_to(self.root)) for path in sorted(self.root.glob(pattern)))


# Arm's cpuinfo has only numbers: these are the vendors, and the cores of servers and boards that run Linux.
_ARM_VENDORS = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x61: "Apple",
    0xC0: "Ampere",
}
_ARM_CORES = {
    0xD03: "Cortex-A53",
    0xD05: "Cortex-A55",
    0xD07: "Cortex-A57",
    0xD08: "Cortex-A72",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD40: "Neoverse-V1",
    0xD49: "Neoverse-N2",
    0xD4F: "Neoverse-V2",
}


@dataclass(frozen=True)
class Processor:
    """A kind of processor; None = not reported. `flags` is None if the architecture has no such line.

    On x86, family, model_no and stepping are the reported ones. On POWER, model_no and stepping are the halves of the
    version register. On Arm, family is the architecture, model_no the part, stepping 16 * variant + revision.
    """

    vendor: str | None = None
    model: str | None = None
    family: int | None = None
    model_no: int | None = None
    stepping: int | None = None
    flags: frozenset[str] | None = None
    microcode: str | None = None
    machine: str | None = None


def parse_cpuinfo(text: str) -> Processor:
    """Parse /proc/cpuinfo: its first processor, which stands for all even if cores differ (big.LITTLE)."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    if "vendor_id" in fields and "cpu family" in fields:
        return Processor(
            vendor=fields["vendor_id"],
            model=fields.get("model name"),
            family=_number(fields["cpu family"]),
            model_no=_number(fields.get("model")),
            stepping=_number(fields.get("stepping")),
            flags=frozenset(fields["flags"].split()) if "flags" in fields else None,
            microcode=fields.get("microcode"),
        )
    if "CPU implementer" in fields:
        return _arm(fields)
    if "cpu" in fields and "revision" in fields:
        version = re.search(r"pvr ([0-9a-f]{4}) ([0-9a-f]{4})", fields["revision"])
        return Processor(
            vendor="IBM",
            model=fields["cpu"].partition(",")[0],  # drops ", altivec supported"
            model_no=int(version[1], 16) if version else None,
            stepping=int(version[2], 16) if version else None,
            machine=fields.get("machine"),
        )
    return Processor(model=fields.get("model name"))


def _arm(fields: dict[str, str]) -> Processor:
    implementer, part = _number(fields["CPU implementer"]), _number(fields.get("CPU part"))
    variant, revision = _number(fields.get("CPU variant")), _number(fields.get("CPU revision"))
    vendor = _ARM_VENDORS.get(implementer or 0, fields["CPU implementer"])
    name = _ARM_CORES.get(part or 0) if implementer == 0x41 else None
    return Processor(
        vendor=vendor,
        model=name or f"{vendor} part {fields.get('CPU part')}",
        family=_number(fields.get("CPU architecture")),
        model_no=part,
        stepping=None if variant is None or revision is None else 16 * variant + revision,
    )


def _number(text: str | None) -> int | None:
    """A decimal or 0x number; None for anything else ("unknown", "AArch64")."""
    try:
        return int(text, 0) if text is not None else None
    except ValueError:
        return None
