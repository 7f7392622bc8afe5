"""What a process must be started with for a strategy that is fixed when it starts.

Libraries read these variables once: glibc its tunables before anything else runs, the loader what to load first, libitm
its method with the first transaction. So a trial of such a strategy needs a process of its own kind, and setting the
variables later changes nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tmflow.base.errors import BadInput, unknown
from tmflow.spec.strategies import Value, parameters_of

# The strategies that are fixed when a process starts.
OF_A_PROCESS = frozenset({"itm", "tle"})

TUNABLES_VARIABLE = "GLIBC_TUNABLES"

# The names of the 2017 study, which are those of glibc's `struct elision_config` (sysdeps/unix/sysv/linux/x86/
# elision-conf.c, since 2.18), and today's tunables, from which that structure is filled (since 2.27). glibc has
# skip_lock_after_retries too, which the study does not name and x86 does not read.
ELISION_TUNABLES = {
    "skip_lock_busy": "glibc.elision.skip_lock_busy",
    "skip_lock_internal_abort": "glibc.elision.skip_lock_internal_abort",
    "skip_trylock_internal_abort": "glibc.elision.skip_trylock_internal_abort",
    "retry_try_xbegin": "glibc.elision.tries",
}
# In the order of the names above.
STUDY_SETTINGS = {"default": (3, 3, 3, 3), "custom": (0, 0, 0, 5)}

# Without these it is no library of the TM ABI. The native library checks the rest, once it runs in the process.
_ABI = ("_ITM_beginTransaction", "_ITM_commitTransaction", "_ITM_RF", "_ITM_WF")


def process_environment(
    strategy: str, parameters: Mapping[str, Value], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables to set for a process in which the strategy runs with these parameters; most strategies need none.

    base: the environment that they are added to, this process's own if None: what it says of other tunables and other
    libraries stays. Raises BadInput for a `library` that is missing or not of the TM ABI.
    """
    base = os.environ if base is None else base
    values = {**parameters_of(strategy), **parameters}
    if strategy == "tle":
        return {TUNABLES_VARIABLE: _merged(base.get(TUNABLES_VARIABLE, ""), elision_tunables(str(values["tunables"])))}
    if strategy != "itm":
        return {}
    needed = {"ITM_DEFAULT_METHOD": str(values["method"])}
    if "library" in values:
        preloaded = base.get("LD_PRELOAD", "")
        needed["LD_PRELOAD"] = " ".join([str(tm_library(str(values["library"]))), *preloaded.split()])
    return needed


def elision_tunables(setting: str) -> dict[str, int]:
    """glibc's tunables of one of the study's settings, by name. Raises BadInput for a setting that it did not have."""
    if setting not in STUDY_SETTINGS:
        raise unknown("tunables of strategy 'tle'", setting, STUDY_SETTINGS)
    return {"glibc.elision.enable": 1, **dict(zip(ELISION_TUNABLES.values(), STUDY_SETTINGS[setting], strict=True))}


def tm_library(path: str) -> Path:
    """The real file of a library to run GCC's transactions with. Raises BadInput if it cannot."""
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise BadInput(f"library {path} of strategy 'itm' is not a file.")
    if any(character.isspace() or character == ":" for character in str(file)):
        raise BadInput(
            f"library {path} of strategy 'itm' has a space or a colon in its path, which LD_PRELOAD cannot hold."
        )
    if reason := _not_of_the_abi(file):
        raise BadInput(f"library {path} of strategy 'itm' is no library of the TM ABI: {reason}.")
    return file


@cache
def _not_of_the_abi(file: Path) -> str:
    """What is wrong with a library, found out in a process of its own; empty if nothing is."""
    load = f"import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); [library[name] for name in {_ABI}]"
    done = subprocess.run([sys.executable, "-S", "-c", load, file], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return done.stderr.strip().rpartition("\n")[2] or f"loading it ended a process with code {done.returncode}"


def _merged(assignments: str, settings: Mapping[str, int]) -> str:
    """The assignments of GLIBC_TUNABLES, with ours in place of others of the same names."""
    others = [item for item in assignments.split(":") if item and item.partition("=")[0] not in settings]
    return ":".join([*others, *(f"{name}={value}" for name, value in settings.items())])
