"""The variants that the library can run here: each strategy with its defaults, with each other value of each parameter,
and with the combinations of `TOGETHER`. New strategies of the registry are included automatically.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, get_args

import pytest

from tmflow.native import loader, registry
from tmflow.native.registry import resolve
from tmflow.platform.profiles import load_profile, profile_names
from tmflow.spec.factors import Manager

if TYPE_CHECKING:
    from tmflow.native._core import ParameterRow

# Values to test of integer parameters; of the others all words are tested.
NUMBERS = {
    "budget": (0, 1),
    "chunk": (1, 64, 1000),
    "block": (1, 64, 1000),
    "fits": (1, 1000),
    "every": (1, 3),
}
# Parameters to test together.
TOGETHER: dict[str, list[tuple[str, ...]]] = {
    "lock": [("kernel=eigen", "optimisation=O0")],
    "htm": [
        ("chunk=7", "budget=0"),
        ("chunk=300", "spending=tuned"),
        ("kernel=eigen", "optimisation=O0"),
        *(("provider=emulated", f"machine={load_profile(name).machine_text()}") for name in profile_names()),
        ("provider=emulated", f"machine={load_profile('intel-tsx-study').machine_text()}", "chunk=1000"),
    ],
    "htm_if_fits": [
        ("block=64", "budget=0"),
        *(
            ("provider=emulated", f"machine={load_profile(name).machine_text()}", "block=64", f"fits={fits}")
            for name in profile_names()
            for fits in (1, 700, 1_000_000)
        ),
    ],
    "stm": [
        *(
            (f"design={design}", f"manager={manager}")
            for design in ("wb_ctl", "wt")
            for manager in get_args(Manager)[1:]
        ),
        ("design=wt", "chunk=1000"),
        ("design=wt", "instrumentation=all", "optimisation=O0"),
    ],
    "striped": [("block=0",)],  # as fits the variable
    "combining": [("block=0",), ("block=1000000000",)],  # as fits the variable; the whole variable
    "block_stm": [("block=64", f"manager={manager}") for manager in get_args(Manager)],
}
STRATEGIES = registry.source_names()
KEEPING = [name for name in STRATEGIES if name != "nolock"]  # those that guarantee not to lose updates


@dataclass(frozen=True)
class Variant:
    """A strategy with parameters ("name=value"); the others have their defaults."""

    strategy: str
    parameters: tuple[str, ...] = ()
    keeps_updates: bool = field(default=True, compare=False)  # whether it guarantees not to lose updates

    def __str__(self) -> str:
        return " ".join((self.strategy, *self.parameters))

    def value(self, name: str) -> str | None:
        return dict(parameter.split("=", 1) for parameter in self.parameters).get(name)

    @property
    def has_transactions(self) -> bool:
        """Whether it tries transactions, and so counts their outcomes."""
        return resolve(self.strategy).mechanism is not None

    def sections(self, elements: int) -> int:
        """The number of critical sections in an update of this many elements."""
        chunk = int(self.value("chunk") or 0)
        return -(-elements // chunk) if chunk else min(elements, 1)


def variants_of(strategy: str) -> list[Variant]:
    """All variants of a strategy that can run in this process. Skips the calling test if there is none."""
    reasons = {variant: why_not(variant) for variant in _listed(strategy)}
    variants = [variant for variant, reason in reasons.items() if reason is None]
    if not variants:
        pytest.skip("; ".join(sorted({str(reason) for reason in reasons.values()})))
    return variants


def _listed(strategy: str) -> Iterator[Variant]:
    (row,) = (row for row in loader.core().strategies() if row["name"] == strategy)
    alone = [(value,) for parameter in row["parameters"] for value in _others(parameter)]
    for parameters in [(), *alone, *TOGETHER.get(strategy, [])]:
        yield Variant(strategy, parameters, keeps_updates=row["update_consistency"] != "none")


@cache
def why_not(variant: Variant) -> str | None:
    """Why the variant cannot run in this process: another processor, or a missing process or parameter.

    Determined by running it. Any other problem is an error.
    """
    try:
        loader.core().audit(variant.strategy, 1, 1, 1, parameters=variant.parameters)
    except ValueError as error:
        if not re.search(r"cannot run here| needs ", str(error)):
            raise
        return str(error)
    return None


def _others(parameter: ParameterRow) -> Iterator[str]:
    """The values to test besides the default; none for free text."""
    name, words = parameter["name"], parameter["allowed"].split(", ")
    if re.fullmatch(r"\d+ to \d+", parameter["allowed"]):
        words = [str(number) for number in NUMBERS[name]]
    elif parameter["fallback"] not in words:
        return
    yield from (f"{name}={word}" for word in words if word != parameter["fallback"])
