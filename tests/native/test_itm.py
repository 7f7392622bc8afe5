"""GCC's transactions, with every method of libitm and with a library of another name."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
from own_process import call

from tmflow.base.errors import Unsupported
from tmflow.native import availability, loader, registry
from tmflow.spec.factors import Method
from tmflow.spec.process_env import process_environment

METHODS = get_args(Method)
ALONE = {"serialirr", "serialirr_onwrite"}  # they make every transaction that writes irrevocable


@pytest.fixture(autouse=True)
def built() -> None:
    if reason := registry.require("itm").why_not:
        pytest.skip(reason)


def skip_without_transactions(method: str) -> None:
    if method == "htm" and (reason := registry.require("htm").why_not):
        pytest.skip(reason)


def tried_and_ended(rows: list[dict[str, Any]]) -> tuple[Any, int, int]:
    """Attempts, commits and fallbacks of all workers."""
    known = [row["attempts"] for row in rows if row["attempts"] is not None]
    return sum(known) if known else None, sum(row["commits"] for row in rows), sum(row["fallbacks"] for row in rows)


@pytest.mark.parametrize("optimisation", ["O0", "O3"])
@pytest.mark.parametrize("method", METHODS)
def test_one_thread_is_the_plain_loop_to_the_bit(method: str, optimisation: str) -> None:
    skip_without_transactions(method)
    report = call("one_thread", "itm", {"method": method, "optimisation": optimisation})
    assert report["same"]
    attempts, commits, fallbacks = tried_and_ended(report["counters"])
    assert commits + fallbacks == 3
    if method != "htm":  # alone, nothing restarts
        assert (attempts, fallbacks) == ((0, 3) if method == "serialirr" else (commits, 3 if method in ALONE else 0))


@pytest.mark.parametrize("method", METHODS)
def test_four_threads_lose_nothing_and_every_transaction_is_counted(method: str) -> None:
    skip_without_transactions(method)
    report = call("four_threads", "itm", {"method": method})
    for audit in report["audits"]:
        assert (audit["lost"], audit["doubled"], audit["corrupt_elements"]) == (0, 0, 0)
    assert report["values"] == [400]
    rows = report["counters"]
    attempts, commits, fallbacks = tried_and_ended(rows)
    assert commits + fallbacks == 400
    if method == "htm":
        assert attempts is None, "libitm does not tell how often its hardware transactions began"
    else:
        assert attempts == commits + sum(sum(row["aborts"].values()) for row in rows) >= commits
    assert {status for row in rows for status in row["aborts"]} <= {"0"}
    if method in ALONE:
        assert commits == 0


def test_a_process_without_the_method_is_refused() -> None:
    reason = call("state", "itm", {"method": "gl_wt"}, environment={})["why_not"]
    assert "needs a process started with ITM_DEFAULT_METHOD=gl_wt" in reason
    assert reason.endswith("this process was started without it")
    other = {"ITM_DEFAULT_METHOD": "ml_wt"}
    assert call("state", "itm", {"method": "gl_wt"}, other)["why_not"].endswith("this process was started with ml_wt")
    with pytest.raises(Unsupported, match="strategy 'itm' cannot run here: itm with method gl_wt needs a process"):
        availability.require(registry.resolve("itm", {"method": "gl_wt"}))


def test_a_library_by_path_is_really_used(tmp_path: Path) -> None:
    """A copy of libitm under another name behaves like libitm, and is used only on request."""
    library = tmp_path / "libother_tm.so"
    shutil.copy(str(loader.core().tm_library()), library)
    asked = {"library": str(library)}
    assert call("state", "itm", asked) | {"tunables": None} == {
        "why_not": None,
        "library": str(library),
        "tunables": None,
    }
    report = call("four_threads", "itm", asked)
    assert [audit["lost"] for audit in report["audits"]] == [0, 0, 0]
    assert report["values"] == [400]
    not_asked = call("state", "itm", {}, process_environment("itm", asked))["why_not"]
    assert not_asked == f"{library} runs this process's transactions in place of libitm, and no library was asked for"
    not_loaded = call("state", "itm", asked, process_environment("itm", {}))["why_not"]
    assert f"the library {library} is not in use" in not_loaded


def test_a_library_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    """libitm would supply the missing functions, and such a mixture isolates nothing."""
    names = ("beginTransaction", "commitTransaction", "RF", "WF")
    source = "".join(f"void _ITM_{name}(void) {{}}\n" for name in names)
    library = tmp_path / "half.so"
    (tmp_path / "half.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "half.c"], check=True)
    reason = call("state", "itm", {"library": str(library)})["why_not"]
    assert f"the library {library}, which is used instead of libitm, does not define _ITM_inTransaction" in reason


def test_every_function_of_the_interface_that_is_called_is_checked() -> None:
    """Checks the list in src/itm.cc against the symbols of the built library."""
    file = loader.core_file(loader.library_dir())
    symbols = subprocess.run(["nm", "-D", "--undefined-only", str(file)], capture_output=True, text=True, check=True)
    called = set(re.findall(r" U (_ITM_\w+)", symbols.stdout))
    assert called
    source = (Path(__file__).parents[2] / "native_ops" / "src" / "itm.cc").read_text()
    assert {name for name in called if f'"{name}"' not in source} == set()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ml_wt", pytest.param("serialirr", marks=pytest.mark.deep)])
def test_operations_on_both_kinds_of_variables(method: str) -> None:
    report = call("session", "itm", {"method": method})
    assert set(report) == {"ref float32", "ref float64", "resource float32", "resource float64"}
    for found in report.values():
        assert found["values"] == [100]
        attempts, commits, fallbacks = tried_and_ended(found["counters"])
        assert commits + fallbacks == 100
        assert attempts == commits + sum(abort["n"] for abort in found["aborts"])
        assert all((abort["mechanism"], abort["family"]) == ("itm", "unknown") for abort in found["aborts"])
