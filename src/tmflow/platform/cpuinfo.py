"""/proc/cpuinfo, which every architecture words differently, as one kind of processor."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Arm's cpuinfo has only numbers. The vendors, and the cores that servers and boards with Linux have.
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
    """A kind of processor; None = not said. `flags` is None where the architecture has no such line.

    family, model_no and stepping are x86's; of POWER, model_no and stepping are the halves of the version register;
    of Arm, family is the architecture, model_no the part, stepping 16 * variant + revision.
    """

    vendor: str | None = None
    model: str | None = None
    family: int | None = None
    model_no: int | None = None
    stepping: int | None = None
    flags: frozenset[str] | None = None
    microcode: str | None = None
    machine: str | None = None


def parse(text: str) -> Processor:
    """The first processor that the text describes; where cores differ (big.LITTLE) it stands for all."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    if "vendor_id" in fields and "cpu family" in fields:
        return _x86(fields)
    if "CPU implementer" in fields:
        return _arm(fields)
    if "cpu" in fields and "revision" in fields:
        return _power(fields)
    return Processor(model=fields.get("model name"))


def _x86(fields: dict[str, str]) -> Processor:
    return Processor(
        vendor=fields["vendor_id"],
        model=fields.get("model name"),
        family=_number(fields.get("cpu family")),
        model_no=_number(fields.get("model")),
        stepping=_number(fields.get("stepping")),
        flags=frozenset(fields["flags"].split()) if "flags" in fields else None,
        microcode=fields.get("microcode"),
    )


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


def _power(fields: dict[str, str]) -> Processor:
    version = re.search(r"pvr ([0-9a-f]{4}) ([0-9a-f]{4})", fields["revision"])
    return Processor(
        vendor="IBM",
        model=fields["cpu"].partition(",")[0],  # drops ", altivec supported"
        model_no=int(version[1], 16) if version else None,
        stepping=int(version[2], 16) if version else None,
        machine=fields.get("machine"),
    )


def _number(text: str | None) -> int | None:
    """A decimal or 0x number; None for anything else ("unknown", "AArch64")."""
    try:
        return int(text, 0) if text is not None else None
    except ValueError:
        return None
