"""Whether a strategy can run in this process, and a trial on this machine; checks the settings that are in force."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tmflow.base.errors import Unsupported
from tmflow.native import loader
from tmflow.native.registry import ResolvedStrategy
from tmflow.platform.facts import cpus_allowed
from tmflow.spec.models import MODELS
from tmflow.spec.process_env import TUNABLES_VARIABLE, elision_tunables, tm_library

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec

LIBITM = "libitm.so"
FUSED_NOT_EMULATED = (
    "kernel fused does not go with provider emulated: an emulated transaction walks a gradient that is written"
)


def require(strategy: ResolvedStrategy) -> None:
    """Raise Unsupported, with the reason, if the strategy cannot run in this process."""
    if reason := why_not(strategy):
        raise Unsupported(f"strategy '{strategy.name}' cannot run here: {reason}.")


def why_not(strategy: ResolvedStrategy) -> str | None:
    """Why the strategy cannot run in this process; None if it can. Every call checks the process again.

    Raises ValueError for a parameter that the strategy does not have, or a value that it does not allow.
    """
    if not strategy.entry.built:
        return strategy.entry.why_not
    if strategy.is_stock:
        return strategy.entry.why_not or mutexes_elided()
    reason = loader.core().why_not(strategy.name, list(strategy.native_arguments))
    if strategy.name == "tle":
        return reason or _tunables_mismatch(elision_tunables(str(strategy.parameters["tunables"])))
    if strategy.name == "itm":
        reason = reason or _library_mismatch(strategy.parameters.get("library"))
    return reason or mutexes_elided()


def mutexes_elided() -> str | None:
    """Why nothing but `tle` runs here: glibc elides the mutexes of this process; None if it does not.

    Without this check, an environment that asks for elision would silently turn every strategy with a mutex into `tle`.
    """
    if loader.core().why_not("tle", []) is not None:
        return None
    return f"glibc elides every mutex of this process ({TUNABLES_VARIABLE}), which is strategy tle and no other"


@cache
def tunables_in_force() -> dict[str, int] | None:
    """glibc's elision tunables in this process, by name; None if its glibc cannot list them (before 2.33).

    glibc silently ignores settings that it does not know or allow. So this asks the loader how it interprets the
    environment that this process was started with.
    """
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    loaders = {path for path in mapped if Path(path).name.startswith(("ld-linux", "ld64"))}
    if not loaders:
        return None
    command = [loaders.pop(), "--list-tunables"]
    started_with = {TUNABLES_VARIABLE: _tunables_at_start()}
    done = subprocess.run(command, env=started_with, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    lines = (line.partition(": ") for line in done.stdout.splitlines() if line.startswith("glibc.elision."))
    return {name: int(rest.split()[0]) for name, _, rest in lines}


def _tunables_mismatch(wanted: Mapping[str, int]) -> str | None:
    in_force = tunables_in_force()
    if in_force is None:
        return "this C library does not list its tunables, so whether it accepted them is not known"
    for name, value in wanted.items():
        if in_force.get(name) != value:
            return f"the tunable {name} is {in_force.get(name, 'unknown')} in this process, not {value}"
    return None


def _library_mismatch(wanted: object) -> str | None:
    used = loader.core().tm_library() or ""
    if wanted is not None and Path(used).resolve() != tm_library(str(wanted)):
        return f"the library {wanted} is not in use: {used} runs this process's transactions"
    if wanted is None and not Path(used).name.startswith(LIBITM):
        return f"{used} runs this process's transactions in place of libitm, and no library was asked for"
    return None


def _tunables_at_start() -> str:
    """GLIBC_TUNABLES at the start of this process; later changes do not count.

    glibc cuts the kernel's copy at each value that it takes: after a cut, the parts that begin with "glibc." belong to
    the variable.
    """
    environment = b"\0" + Path("/proc/self/environ").read_bytes()
    _, _, rest = environment.partition(f"\0{TUNABLES_VARIABLE}=".encode())
    first, *others = rest.decode(errors="surrogateescape").split("\0")
    return ":".join([first, *itertools.takewhile(lambda entry: entry.startswith("glibc."), others)])


def unsupported_reason(spec: TrialSpec, strategy: ResolvedStrategy) -> str | None:
    """Why a trial cannot run here; None if it can, as far as that is known without trying."""
    return unfit_reason(spec, strategy) or why_not(strategy)


def unfit_reason(spec: TrialSpec, strategy: ResolvedStrategy) -> str | None:
    """Why no process can run a trial, or not on this number of processors; None if one can.

    strategy: that of the spec, with its parameters.
    """
    from tmflow.spec.factors import ADVISED_DRIVERS  # with pydantic, which a spec has, and shared arrays do without

    cpus = cpus_allowed() or os.cpu_count() or 1
    by_rows = MODELS[spec.model].by_rows
    refusals = (
        (
            spec.driver in ADVISED_DRIVERS,
            f"driver {spec.driver} is for `tmflow advise`, which measures a user's own model",
        ),
        (
            spec.driver == "native" and strategy.is_stock,
            f"strategy {spec.strategy} is TensorFlow's own update, which the native driver does without",
        ),
        (
            spec.reading == "consistent" and strategy.entry.snapshot_consistency == "none",
            f"strategy {spec.strategy} has no consistent read: its reads guarantee no consistency",
        ),
        (
            spec.reading == "plain" and strategy.entry.keeps_elsewhere,
            f"strategy {spec.strategy} keeps the variables elsewhere than in their memory, so a plain read would lack "
            "updates: it needs reading consistent",
        ),
        (
            strategy.is_fused and spec.layout == "joined",
            "kernel fused updates each dense layer from its own factors, and layout joined has one variable for all",
        ),
        (strategy.is_fused and strategy.is_emulated, FUSED_NOT_EMULATED),
        (
            by_rows and strategy.is_fused,
            f"kernel fused is for dense layers, and {spec.model} updates rows of its weights",
        ),
        (
            by_rows and spec.layout == "joined",
            f"{spec.model} updates rows of its weights, and layout joined has one variable for all",
        ),
        (
            by_rows and spec.measures == "full" and spec.driver != "native",
            f"the session driver counts lost updates of whole variables, and {spec.model} updates rows: driver native "
            "counts those, too",
        ),
        (
            by_rows and spec.strategy == "tf_lock" and spec.variables == "resource" and spec.optimiser == "sgd",
            "strategy tf_lock needs variables ref for updates of rows: TensorFlow's own update of rows of a resource "
            "variable takes no exclusive lock",
        ),
        (
            spec.provider == "emulated" and spec.threads > cpus,
            f"{spec.threads} threads are more than the {cpus} processors that this process may use: emulated "
            "transactions would not overlap as those of the machine do",
        ),
    )
    return next((reason for refused, reason in refusals if refused), None)
