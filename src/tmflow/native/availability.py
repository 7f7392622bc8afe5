"""Whether a strategy can run in this process, and a trial on this machine: read back, not as it was asked for."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tmflow.base.errors import Unsupported
from tmflow.native import fused, loader, registry
from tmflow.native.registry import native_parameters
from tmflow.platform.environment import cpus_allowed
from tmflow.spec.process_env import TUNABLES_VARIABLE, elision_tunables, tm_library
from tmflow.spec.strategies import Value, parameters_of

if TYPE_CHECKING:
    from tmflow.spec.trial import TrialSpec

LIBITM = "libitm.so"


def require(strategy: str, parameters: Mapping[str, Value]) -> None:
    """Raises Unsupported, with the reason, if this process is not as the strategy needs it with these parameters."""
    if reason := why_not(strategy, parameters):
        raise Unsupported(f"strategy '{strategy}' cannot run here: {reason}.")


def why_not(strategy: str, parameters: Mapping[str, Value]) -> str | None:
    """Why the strategy cannot run in this process with these parameters; None if it can.

    Looks anew with every call. Raises BadInput for an unknown strategy or profile, ValueError for a parameter that the
    strategy does not have or a value that it does not allow.
    """
    variant = registry.require(strategy)
    if not variant.built:
        return variant.why_not
    if variant.provider == "stock":
        return variant.why_not or mutexes_elided()
    values = {**parameters_of(strategy, parameters.get("spending")), **parameters}
    return why_not_with(strategy, values, native_parameters(strategy, values))


def why_not_with(strategy: str, values: Mapping[str, Value], native: Sequence[str]) -> str | None:
    """As `why_not`, of a native strategy that is built, with all its parameters and as the library takes them."""
    return loader.core().why_not(strategy, list(native)) or _other_process(strategy, values)


def _other_process(strategy: str, values: Mapping[str, Value]) -> str | None:
    if strategy == "tle":
        return _other_tunables(elision_tunables(str(values["tunables"])))
    if strategy == "itm" and (reason := _other_library(str(values["library"]) if "library" in values else None)):
        return reason
    return mutexes_elided()


def mutexes_elided() -> str | None:
    """Why nothing but `tle` runs here: glibc elides the mutexes of this process; None if it does not.

    An environment that asks for elision would else turn every strategy with a mutex into `tle`, under its own name.
    """
    if loader.core().why_not("tle", []) is not None:
        return None
    return f"glibc elides every mutex of this process ({TUNABLES_VARIABLE}), which is strategy tle and no other"


def tunables_in_force() -> dict[str, int] | None:
    """glibc's elision tunables as this process has them, by name; None if its glibc cannot list them (before 2.33).

    glibc ignores in silence what it does not know or allow, so the loader is asked what it makes of the environment
    that this process was started with.
    """
    return _listed_tunables(_assigned_at_start())


@cache
def _listed_tunables(assigned: str) -> dict[str, int] | None:
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    loaders = {path for path in mapped if Path(path).name.startswith(("ld-linux", "ld64"))}
    if not loaders:
        return None
    command = [loaders.pop(), "--list-tunables"]
    done = subprocess.run(command, env={TUNABLES_VARIABLE: assigned}, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    lines = (line.partition(": ") for line in done.stdout.splitlines() if line.startswith("glibc.elision."))
    return {name: int(rest.split()[0]) for name, _, rest in lines}


def _other_tunables(wanted: Mapping[str, int]) -> str | None:
    in_force = tunables_in_force()
    if in_force is None:
        return "this C library does not list its tunables, so it cannot be told whether it took them"
    for name, value in wanted.items():
        if in_force.get(name) != value:
            return f"the tunable {name} is {in_force.get(name, 'unknown')} in this process, not {value}"
    return None


def _other_library(wanted: str | None) -> str | None:
    used = loader.core().tm_library() or ""
    if wanted is not None and Path(used).resolve() != tm_library(wanted):
        return f"the library {wanted} is not in use: {used} runs this process's transactions"
    if wanted is None and not Path(used).name.startswith(LIBITM):
        return f"{used} runs this process's transactions in place of libitm, and no library was asked for"
    return None


def _assigned_at_start() -> str:
    """GLIBC_TUNABLES as this process was started with it, whatever it has set since.

    glibc cuts the kernel's copy at each value that it takes: what begins with "glibc." after a cut belongs to it.
    """
    environment = b"\0" + Path("/proc/self/environ").read_bytes()
    _, _, rest = environment.partition(f"\0{TUNABLES_VARIABLE}=".encode())
    first, *others = rest.decode(errors="surrogateescape").split("\0")
    return ":".join([first, *itertools.takewhile(lambda entry: entry.startswith("glibc."), others)])


def unsupported_reason(spec: TrialSpec) -> str | None:
    """Why a trial cannot run here; None if it can, as far as that can be told without trying."""
    return unfit_reason(spec) or why_not(spec.strategy, spec.parameters())


def unfit_reason(spec: TrialSpec) -> str | None:
    """Why a trial cannot run anywhere, or not on so few processors, whatever this process is like; None if it can."""
    return _not_native(spec) or _not_fitting(spec) or _too_many_to_emulate(spec)


def _not_native(spec: TrialSpec) -> str | None:
    if spec.driver == "native" and registry.require(spec.strategy).provider == "stock":
        return f"strategy {spec.strategy} is TensorFlow's own update, which the native driver does without"
    return None


def _not_fitting(spec: TrialSpec) -> str | None:
    """Why the strategy cannot be read or fused, or the variables be laid out, as asked; None if they can."""
    strategy = registry.require(spec.strategy)
    if spec.reading == "consistent" and strategy.promise_snapshots == "none":
        return f"strategy {spec.strategy} has no consistent read: it promises nothing of what is read by way of it"
    if spec.reading == "plain" and strategy.keeps_elsewhere:
        return (
            f"strategy {spec.strategy} keeps the variables elsewhere than in their memory, so a plain read would find "
            "none of the updates: it needs reading consistent"
        )
    if spec.layout == "joined" and spec.kernel == "fused":
        return "kernel fused updates each dense layer from its own factors, and layout joined has one variable for all"
    if spec.kernel == "fused" and spec.provider == "emulated":
        return fused.NOT_EMULATED
    return None


def _too_many_to_emulate(spec: TrialSpec) -> str | None:
    cpus = cpus_allowed() or os.cpu_count() or 1
    if spec.provider == "emulated" and spec.threads > cpus:
        return (
            f"{spec.threads} threads are more than the {cpus} processors that this process may use: emulated "
            "transactions would not overlap as those of the machine do"
        )
    return None
