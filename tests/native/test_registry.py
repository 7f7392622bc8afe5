"""The registry: with and without a build its names agree; and the file that it writes."""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tmflow.base.errors import BadInput
from tmflow.native import availability, loader, registry
from tmflow.platform.software import tensorflow_version


@pytest.fixture
def not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(tmp_path))
    return tmp_path


def test_each_built_strategy_has_the_name_of_its_file() -> None:
    assert sorted(row["name"] for row in loader.core().strategies()) == registry.source_names()


def test_threads_that_ask_at_once_load_the_library_once() -> None:
    """`tmflow doctor` does this; nanobind warns of a type that is registered twice."""
    code = (
        "import concurrent.futures, threading\n"
        "from tmflow.native import loader\n"
        "together = threading.Barrier(8)\n"
        "ask = lambda _: (together.wait(), loader.core())[1]\n"
        "with concurrent.futures.ThreadPoolExecutor(8) as pool:\n"
        "    assert len(set(map(id, pool.map(ask, range(8))))) == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_stock_pair_comes_first_and_all_are_built() -> None:
    variants = registry.variants()
    assert [variant.name for variant in variants[:2]] == ["tf_lock", "tf_nolock"]
    assert sorted(variant.name for variant in variants[2:]) == registry.source_names()
    assert [variant.provider for variant in variants[:3]] == ["stock", "stock", "native"]
    assert all(variant.built and variant.runnable == (variant.why_not is None) for variant in variants)
    assert {variant.name for variant in variants if not variant.runnable} <= {"htm", "htm_if_fits", "itm", "tle"}


def test_a_strategy_that_cannot_run_here_says_why() -> None:
    probe = registry.tm_probe()
    assert probe is not None
    htm = registry.require("htm")
    assert htm.runnable == (probe["committed"] > 0)
    if not htm.runnable:
        assert htm.why_not is not None
        assert ("RTM" if platform.machine() == "x86_64" else "transactional memory") in htm.why_not


def test_the_consistency_of_the_stock_pair_and_ours_agree() -> None:
    consistencies = {v.name: (v.update_consistency, v.read_consistency) for v in registry.variants()}
    assert consistencies["tf_lock"] == consistencies["lock"] == ("tensor", "element")
    assert consistencies["tf_nolock"] == consistencies["nolock"] == ("none", "element")


def test_results_are_shown_with_the_consistency_of_the_registry() -> None:
    assert {v.name: v.update_consistency for v in registry.variants()} == registry.UPDATE_CONSISTENCY


@pytest.mark.usefixtures("not_built")
def test_names_are_known_without_a_build() -> None:
    assert registry.names() == ["tf_lock", "tf_nolock", *registry.source_names()]
    lock = registry.require("lock")
    assert not lock.built
    assert not lock.runnable
    assert lock.why_not == f"the native library is not built in {loader.library_dir()}: run `make build`"
    assert registry.tm_probe() is None
    assert registry.build_info() == registry.BuildInfo(None, None)


def test_a_strategy_is_resolved_with_its_defaults_and_guarantees() -> None:
    htm = registry.resolve("htm", {"spending": "study_power"})
    assert (htm.parameters["budget"], htm.parameters["chunk"], htm.parameters["kernel"]) == (100, 0, "plain")
    assert htm.native_arguments == ("budget=100", "spending=study_power")
    assert (htm.entry.update_consistency, htm.entry.read_consistency) == ("tensor", "element")
    assert (htm.is_fused, htm.is_stock) == (False, False)
    itm = registry.resolve("itm", {"method": "gl_wt"})
    assert (itm.mechanism, itm.times_locks, itm.entry.snapshot_consistency) == ("itm", False, "none")


@pytest.mark.usefixtures("not_built")
def test_a_strategy_is_resolved_without_a_build() -> None:
    emulated = registry.resolve("htm", {"provider": "emulated", "profile": "intel-tsx-study"})
    assert (emulated.mechanism, emulated.is_emulated, emulated.entry.update_consistency) == ("rtm", True, None)
    assert availability.why_not(emulated) == registry.require("htm").why_not


def test_a_strategy_newer_than_the_build_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_NATIVE_DIR", str(loader.library_dir()))
    monkeypatch.setenv("TMFLOW_ROOT", str(tmp_path))
    strategies = tmp_path / "native_ops" / "include" / "tmflow" / "strategies"
    strategies.mkdir(parents=True)
    (tmp_path / "Snakefile").touch()
    (strategies / "new.hpp").touch()
    assert registry.require("lock").built
    assert registry.require("new").why_not == "the native library is older than its sources: run `make build`"


def test_without_tensorflow_the_stock_pair_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorflow" else find_spec(name))
    assert {v.name: v.why_not for v in registry.variants() if v.provider == "stock" and not v.runnable} == {
        "tf_lock": "TensorFlow is not installed",
        "tf_nolock": "TensorFlow is not installed",
    }


def test_a_misspelling_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(
        BadInput, match=r"unknown strategy 'no_lock' \(did you mean 'nolock'\?\); valid: .*lock, .*nolock,"
    ):
        registry.require("no_lock")


def test_variants_json_holds_strategies_build_and_probe(tmp_path: Path) -> None:
    path = tmp_path / "results" / "variants.json"
    registry.write_variants(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["schema_version"] == 1
    assert document["tensorflow"] == tensorflow_version()
    assert document["compiler"]
    assert document["tm_probe"].keys() == {"reported", "tried", "committed", "statuses"}
    assert [row["name"] for row in document["strategies"]] == registry.names()
    assert {row["name"]: row["parameters"] for row in document["strategies"]} == {
        "tf_lock": [],
        "tf_nolock": [],
        **{row["name"]: row["parameters"] for row in loader.core().strategies()},
    }
    assert list(path.parent.iterdir()) == [path]


def test_a_library_that_does_not_load_counts_as_not_built(not_built: Path, tmp_path: Path) -> None:
    (not_built / "_core.so").write_bytes(b"built for another machine")
    assert registry.names() == ["tf_lock", "tf_nolock", *registry.source_names()]
    lock = registry.require("lock")
    assert not lock.built
    assert not lock.runnable
    assert lock.why_not is not None
    assert lock.why_not.startswith(f"the native library {not_built / '_core.so'} does not load (")
    assert lock.why_not.endswith("): run `make build`")
    assert registry.tm_probe() is None
    assert registry.build_info() == registry.BuildInfo(None, None)
    with pytest.raises(BadInput, match="does not load"):  # the build step must not mistake it for a result
        registry.write_variants(tmp_path / "variants.json")
    assert not (tmp_path / "variants.json").exists()


@pytest.mark.usefixtures("not_built")
def test_what_is_not_built_does_not_load() -> None:
    with pytest.raises(BadInput, match=r"the native library is not built in .*: run `make build`"):
        loader.core()
    with pytest.raises(BadInput, match=r"the native library is not built in .*: run `make build`"):
        loader.ops()
    with pytest.raises(BadInput, match=r"the native library is not built in .*: run `make build`"):
        loader.runtime()


def test_what_is_damaged_does_not_load(not_built: Path) -> None:
    (not_built / "_core.so").write_bytes(b"not a library")
    (not_built / loader.OPS_LIBRARY).write_bytes(b"not a library")
    (not_built / loader.RUNTIME_LIBRARY).write_bytes(b"not a library")
    with pytest.raises(BadInput, match="does not load"):
        loader.core()
    with pytest.raises(BadInput, match="does not load"):
        loader.ops()
    with pytest.raises(BadInput, match="does not load"):
        loader.runtime()
