"""`tmflow doctor` tries each strategy and reports which ones run here and why others do not."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Tmflow
from tmflow.native import loader, registry, self_test

FIELDS = {"name", "state", "text", "advice", "built", "runnable", "how", "adds"}
AUDIT = "4 threads made 50 updates each of 1,000 elements"


def strategies(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """The strategies in the JSON of doctor; a strategy that cannot run here is no failure."""
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)
    assert all(set(finding) == FIELDS for finding in findings)
    kind = "strategy "
    return {f["name"].removeprefix(kind): f for f in findings if f["name"].startswith(kind)}


@pytest.mark.slow
def test_every_strategy_is_tried_in_a_process_started_for_it(tmflow: Tmflow) -> None:
    found = strategies(tmflow("doctor", "--json"))
    assert set(found) == set(registry.names())
    for variant in registry.variants():
        finding = found[variant.name]
        assert finding["built"] == variant.built
        assert finding["runnable"] == variant.runnable == (finding["state"] == "ok")
        if variant.runnable:
            assert AUDIT in finding["how"]
            assert finding["text"] == variant.summary
            if variant.update_consistency != "none":
                assert finding["how"].endswith("nothing lost")
        else:
            assert finding["text"] == variant.why_not
    if found["htm"]["runnable"]:
        assert re.match(r"\d+ of 100 trial transactions committed; ", found["htm"]["how"])
    if found["tle"]["runnable"]:
        assert "glibc.elision.enable is 1 in its process, and a mutex, read back, is elided" in found["tle"]["how"]
    if found["itm"]["runnable"]:
        assert re.match(r"libitm\.so\S*, method ml_wt; 100 of 100 trial updates committed", found["itm"]["how"])


@pytest.mark.slow
def test_where_nothing_is_built_it_says_so(tmflow: Tmflow, tmp_path: Path) -> None:
    found = strategies(tmflow("doctor", "--json", TMFLOW_NATIVE_DIR=tmp_path))
    assert set(found) == set(registry.names())
    for name in registry.source_names():
        assert (found[name]["built"], found[name]["runnable"], found[name]["state"]) == (False, False, "missing")
        assert "is not built" in found[name]["text"]
        assert found[name]["how"] == "not tried: there is nothing to try"


def test_a_process_that_is_not_started_for_a_strategy_shows_in_its_trial() -> None:
    """The trial reads the environment back: without it, it finds that the strategy cannot run."""
    for name in ("itm", "tle"):
        if registry.require(name).runnable:
            assert "process" in str(self_test.try_here(name).why_not)
    assert "is not elided" in self_test.try_here("tle").how


def test_a_trial_that_crashes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "#include <signal.h>\n__attribute__((constructor)) static void die(void) { raise(SIGSEGV); }\n"
    (tmp_path / "crash.c").write_text(source)
    library = tmp_path / "crash.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "crash.c"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    tried = self_test.try_each(["lock"])["lock"]
    assert tried.why_not == "its trial was ended by SIGSEGV"


def test_a_strategy_that_loses_updates_violates_its_consistency(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the library loses updates under a lock, because no real strategy does."""
    real = loader.core()

    def losing(*_: object) -> dict[str, Any]:
        return {**real.audit("lock", 1, 1, 1), "lost": 1, "expected": 4}

    stand_in = SimpleNamespace(audit=losing, strategies=real.strategies, why_not=real.why_not)
    monkeypatch.setattr(loader, "core", lambda: stand_in)
    tried = self_test.try_here("lock")
    assert tried.why_not == "it violates its consistency: updates are lost"
    assert tried.how == f"{AUDIT}: 25.0 % lost"
    assert self_test.try_here("nolock").why_not is None
