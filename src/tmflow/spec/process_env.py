"""The environment variables of processes for strategies that are configured when a process starts.

Libraries read these variables once: glibc its tunables before anything else runs, the loader its preloads, libitm its
method with the first transaction. Setting them later has no effect, so such strategies need separate processes.
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

# The strategies that are configured when a process starts.
OF_A_PROCESS = frozenset({"itm", "tle"})

TUNABLES_VARIABLE = "GLIBC_TUNABLES"

# The settings by their names in the 2017 study, which are those of glibc's `struct elision_config`
# (sysdeps/unix/sysv/linux/x86/elision-conf.c, since 2.18), and the tunables that set them (since 2.27). glibc also has
# skip_lock_after_retries, which the study does not mention and x86 ignores.
ELISION_TUNABLES = {
    "skip_lock_busy": "glibc.elision.skip_lock_busy",
    "skip_lock_internal_abort": "glibc.elision.skip_lock_internal_abort",
    "skip_trylock_internal_abort": "glibc.elision.skip_trylock_internal_abort",
    "retry_try_xbegin": "glibc.elision.tries",
}
# In the order of the names above.
STUDY_SETTINGS = {"default": (3, 3, 3, 3), "custom": (0, 0, 0, 5)}

# Every library of the TM ABI has these. The native library checks the rest when it runs in the process.
_ABI = ("_ITM_beginTransaction", "_ITM_commitTransaction", "_ITM_RF", "_ITM_WF")


def process_environment(
    strategy: str, parameters: Mapping[str, Value], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables to set for a process that runs the strategy with these parameters; most strategies need none.

    base: the environment to which they are added, by default that of this process; its other tunables and preloaded
    libraries are kept. Raises BadInput for a `library` that is missing or not of the TM ABI.
    """
    base = os.environ if base is None else base
    values = {**parameters_of(strategy), **parameters}
    if strategy == "tle":
        settings = elision_tunables(str(values["tunables"]))
        assignments = base.get(TUNABLES_VARIABLE, "").split(":")
        others = [item for item in assignments if item and item.partition("=")[0] not in settings]
        return {TUNABLES_VARIABLE: ":".join([*others, *(f"{name}={value}" for name, value in settings.items())])}
    if strategy != "itm":
        return {}
    needed = {"ITM_DEFAULT_METHOD": str(values["method"])}
    if "library" in values:
        preloaded = base.get("LD_PRELOAD", "")
        needed["LD_PRELOAD"] = " ".join([str(tm_library(str(values["library"]))), *preloaded.split()])
    return needed


def elision_tunables(setting: str) -> dict[str, int]:
    """glibc's tunables for a setting of the study, by name. Raises BadInput for an unknown setting."""
    if setting not in STUDY_SETTINGS:
        raise unknown("tunables of strategy 'tle'", setting, STUDY_SETTINGS)
    return {"glibc.elision.enable": 1, **dict(zip(ELISION_TUNABLES.values(), STUDY_SETTINGS[setting], strict=True))}


def tm_library(path: str) -> Path:
    """The real file of a library that runs GCC's transactions. Raises BadInput if it cannot be used."""
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise BadInput(f"library {path} of strategy 'itm' is not a file.")
    if any(character.isspace() or character == ":" for character in str(file)):
        raise BadInput(
            f"library {path} of strategy 'itm' has a space or a colon in its path, which LD_PRELOAD cannot hold."
        )
    if reason := _abi_problem(file):
        raise BadInput(f"library {path} of strategy 'itm' is not a library of the TM ABI: {reason}.")
    return file


@cache
def _abi_problem(file: Path) -> str:
    """What is wrong with a library, checked in another process; empty if nothing is."""
    load = f"import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); [library[name] for name in {_ABI}]"
    done = subprocess.run([sys.executable, "-S", "-c", load, file], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return done.stderr.strip().rpartition("\n")[2] or f"loading it ended a process with code {done.returncode}"
