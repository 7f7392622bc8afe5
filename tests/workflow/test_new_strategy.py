"""A strategy is one file and one line, and is then available everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, Checkout, Tmflow
from tests.workflow.conftest import Portal

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1200)]  # a checkout has no build yet

TOY = """\
// toy: a mutex of ours that is tried until it is free.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "tmflow/sync/own_mutex.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow {

struct TriedMutex : std::mutex {
  void lock() {
    while (!try_lock()) pause_processor();
  }
};

// Contract and memory ordering: those of OwnMutex.
struct Toy : OwnMutex<TriedMutex> {
  static constexpr StrategyInfo info{
      .name = "toy",
      .summary = "a mutex of ours is tried until it is free",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }
};

}  // namespace tmflow
"""
LAST = "tmflow_add_strategy(adaptive Adaptive)\n"


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory, checkout_at: type[Checkout], tmflow: Tmflow) -> Checkout:
    """A built checkout with another strategy: only the list of strategies has changed."""
    checkout = checkout_at(tmp_path_factory.mktemp("toy") / "checkout", TINY)
    include = checkout.root / "native_ops" / "include" / "tmflow"
    (include / "strategies" / "toy.hpp").write_text(TOY, encoding="utf-8")
    listed = checkout.root / "native_ops" / "cmake" / "strategies.cmake"
    text = listed.read_text(encoding="utf-8")
    assert text.count(LAST) == 1
    listed.write_text(text.replace(LAST, LAST + "tmflow_add_strategy(toy Toy)\n"), encoding="utf-8")
    done = tmflow("study", "build", python=checkout.python, **checkout.variables)
    assert done.returncode == 0, done.stderr
    return checkout


def test_it_is_listed_and_tried(extended: Checkout, tmflow: Tmflow) -> None:
    done = tmflow("doctor", "--json", **extended.variables)
    assert "toy" in done.stdout
    listed = json.loads((extended.results / "build" / "variants.json").read_text(encoding="utf-8"))
    (row,) = (row for row in listed["strategies"] if row["name"] == "toy")
    assert row["runnable"]
    assert row["update_consistency"] == row["snapshot_consistency"] == "tensor"


def test_the_benchmark_measures_it(extended: Checkout, tmflow: Tmflow) -> None:
    size = ("--elements", "1000", "--threads", "2", "--rounds", "1")
    done = tmflow("bench", "apply", *size, "--strategy", "lock,toy", "--json", **extended.variables)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    (row,) = (row for row in rows if row.get("variant") == "toy")
    assert row["lost_fraction"] == 0
    assert row["us_per_update"] > 0


def test_the_schema_of_the_config_takes_it(extended: Checkout, tmflow: Tmflow) -> None:
    extended.configure(_with_strategies("lock", "toy", "toys"))
    refused = tmflow("study", "plan", **extended.variables)
    assert refused.returncode == 2
    assert "'toys'" in refused.stderr
    assert " toy," in refused.stderr or refused.stderr.rstrip().endswith(" toy.")
    extended.configure(_with_strategies("lock", "toy"))
    planned = tmflow("study", "plan", "--json", **extended.variables)
    assert planned.returncode == 0, planned.stderr


def test_it_trains_and_the_portal_filters_by_it(
    extended: Checkout, tmflow: Tmflow, tmp_path: Path, portal_at: Portal
) -> None:
    runs, url = [], f"sqlite:///{tmp_path / 'study.db'}"
    for strategy in ("lock", "toy"):
        runs.append(tmp_path / f"{strategy}.jsonl")
        small = ("--dataset", "digits", "--iterations", "20", "--batch", "5", "--threads", "2", "--save-file", runs[-1])
        done = tmflow("train", "--strategy", strategy, *small, **extended.variables)
        assert done.returncode == 0, done.stderr
    stored = tmflow("ingest", *runs, **{**extended.variables, "TMFLOW_DB_URL": url})
    assert stored.returncode == 0, stored.stderr

    (strategies,) = (box for box in portal_at(url, "runs").multiselect if box.label == "Strategy")
    assert strategies.options == ["lock (1)", "toy (1)"]
    (listing,) = portal_at(url, "runs", strategy="toy").dataframe
    assert listing.value["strategy"].tolist() == ["toy"]


def _with_strategies(*names: str) -> dict[str, Any]:
    return {**TINY, "defaults": {**TINY["defaults"], "strategy": list(names)}}
