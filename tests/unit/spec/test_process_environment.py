"""The environment of processes for strategies that are configured at process start."""

from __future__ import annotations

import ctypes.util
import subprocess
from pathlib import Path

import pytest

from tmflow.base.errors import BadInput
from tmflow.spec.process_env import OF_A_PROCESS, elision_tunables, process_environment
from tmflow.spec.strategies import STRATEGY_PARAMETERS


def tunables(assignments: str) -> dict[str, str]:
    return dict(item.split("=") for item in assignments.split(":"))


def test_most_strategies_need_nothing() -> None:
    needing = {name for name in [*STRATEGY_PARAMETERS, "tf_lock", "tf_nolock"] if process_environment(name, {})}
    assert needing == OF_A_PROCESS == {"itm", "tle"}


@pytest.mark.parametrize(("setting", "study"), [("default", (3, 3, 3, 3)), ("custom", (0, 0, 0, 5))])
def test_the_study_s_settings_under_today_s_names(setting: str, study: tuple[int, ...]) -> None:
    (value,) = process_environment("tle", {"tunables": setting}, base={}).values()
    assert tunables(value) == {
        "glibc.elision.enable": "1",
        "glibc.elision.skip_lock_busy": str(study[0]),
        "glibc.elision.skip_lock_internal_abort": str(study[1]),
        "glibc.elision.skip_trylock_internal_abort": str(study[2]),
        "glibc.elision.tries": str(study[3]),
    }
    assert {name: str(number) for name, number in elision_tunables(setting).items()} == tunables(value)


def test_a_setting_that_the_study_did_not_have_is_named() -> None:
    with pytest.raises(BadInput, match=r"unknown tunables of strategy 'tle' 'costum' .*valid: custom, default"):
        process_environment("tle", {"tunables": "costum"})


def test_what_the_user_has_set_stays() -> None:
    base = {"GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.elision.tries=9", "LD_PRELOAD": "one.so:two.so"}
    (merged,) = process_environment("tle", {}, base).values()
    assert tunables(merged)["glibc.malloc.check"] == "1"
    assert tunables(merged)["glibc.elision.tries"] == "3"
    again = process_environment("tle", {}, {"GLIBC_TUNABLES": merged})
    assert tunables(again["GLIBC_TUNABLES"]) == tunables(merged)
    assert process_environment("itm", {"method": "gl_wt"}, base) == {"ITM_DEFAULT_METHOD": "gl_wt"}


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.so", tmp_path):
        with pytest.raises(BadInput, match=f"library {path} of strategy 'itm' is not a file"):
            process_environment("itm", {"library": str(path)})


def test_a_library_of_something_else_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(BadInput, match=rf"library {text} .* is not a library of the TM ABI: .*(invalid ELF|too short)"):
        process_environment("itm", {"library": str(text)})
    name = ctypes.util.find_library("m")
    assert name is not None
    loaded = ctypes.CDLL(name)
    assert loaded
    maps = Path("/proc/self/maps").read_text().splitlines()
    libm = next(line.split()[-1] for line in maps if Path(line.split()[-1]).name.startswith("libm."))
    with pytest.raises(BadInput, match=r"is not a library of the TM ABI: .*undefined symbol: _ITM_beginTransaction"):
        process_environment("itm", {"library": libm})


def test_a_library_that_crashes_is_named(tmp_path: Path) -> None:
    (tmp_path / "crash.c").write_text("#include <stdlib.h>\n__attribute__((constructor)) void die(void) { abort(); }\n")
    library = tmp_path / "crash.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "crash.c"], check=True)
    with pytest.raises(BadInput, match="is not a library of the TM ABI: loading it ended a process with code -6"):
        process_environment("itm", {"library": str(library)})


def test_a_path_that_ld_preload_cannot_hold_is_named(tmp_path: Path) -> None:
    library = tmp_path / "a library.so"
    library.touch()
    with pytest.raises(BadInput, match="has a space or a colon in its path"):
        process_environment("itm", {"library": str(library)})
