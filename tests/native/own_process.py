"""Strategies in separate processes: `call` starts one, and this file is its program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from deep_audit import audited
from endurance import endured

from tmflow.native import availability, loader, registry
from tmflow.native.registry import resolve
from tmflow.spec.process_env import process_environment
from tmflow.spec.strategies import parameters_of

Report = dict[str, Any]


def call(
    task: str,
    strategy: str,
    parameters: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    *,
    limit_s: float = 300,
    **arguments: Any,
) -> Report:
    """The answer of a task below, from a process with the environment of the strategy, or with the given one.

    Raises subprocess.TimeoutExpired, and ends the process, if there is no answer after limit_s.
    """
    added = process_environment(strategy, parameters) if environment is None else environment
    command = [sys.executable, __file__, task, strategy, json.dumps(dict(parameters)), json.dumps(arguments)]
    done = subprocess.run(
        command, env={**os.environ, **added}, capture_output=True, text=True, check=False, timeout=limit_s
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def native_arguments(strategy: str, parameters: Mapping[str, Any]) -> list[str]:
    """The parameters in the form of the native library."""
    return list(resolve(strategy, parameters).native_arguments)


def state(strategy: str, parameters: Mapping[str, Any]) -> Report:
    """The state of this process as the library sees it."""
    return {
        "why_not": availability.why_not(resolve(strategy, parameters)),
        "library": loader.core().tm_library(),
        "tunables": availability.tunables_in_force(),
    }


def state_after_setting_variables(strategy: str, parameters: Mapping[str, Any]) -> Report:
    """The same for a process that sets the variables only after its start."""
    os.environ.update(process_environment(strategy, parameters))
    return state(strategy, parameters)


def one_thread(strategy: str, parameters: Mapping[str, Any]) -> Report:
    """Whether every update is equal to NumPy's to the bit, and the counters of the last one."""
    values = native_arguments(strategy, {**parameters_of(strategy), **parameters})
    random = np.random.default_rng(1)
    same = True
    for dtype in (np.float32, np.float64):
        for size in (0, 1, 10, 1023, 7840, 100_003):
            array, delta = random.normal(size=size).astype(dtype), random.normal(size=size).astype(dtype)
            region = loader.core().Region(array)
            for _ in range(3):
                expected = array - dtype(0.3) * delta
                region.apply(strategy, 0.3, delta, 0, values)
                same = same and bool((array == expected).all())
    return {"same": same, "counters": region.counters()}


def four_threads(strategy: str, parameters: Mapping[str, Any]) -> Report:
    """The audit of four threads, and the counters of four more."""
    values = native_arguments(strategy, {**parameters_of(strategy), **parameters})
    core = loader.core()
    audits = [core.audit(strategy, 4, 100, elements, "float32", values) for elements in (1, 10, 7840)]
    region, delta = core.Region(array := np.zeros(1000), workers=4), np.ones(1000)

    def work(worker: int) -> None:
        for _ in range(100):
            region.apply(strategy, -1.0, delta, worker, values)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    return {"audits": audits, "values": np.unique(array).tolist(), "counters": region.counters()}


def deep_audit(strategy: str, parameters: Mapping[str, Any]) -> Report:
    """The audit over all sizes, numbers of threads and types."""
    return audited(strategy, native_arguments(strategy, parameters))


def endurance(strategy: str, parameters: Mapping[str, Any], seconds: float) -> Report:
    """Many threads on two processors for this time: updates, and reads if the strategy has its own."""
    snapshots = registry.require(strategy).snapshot_consistency or "none"
    return endured(strategy, native_arguments(strategy, parameters), seconds, reads=snapshots != "none")


def session(strategy: str, parameters: Mapping[str, Any]) -> Report:
    """Two threads update both kinds of variables of both types in a TensorFlow session."""
    from graphs import in_threads, session_of

    report: Report = {}
    for kind in ("ref", "resource"):
        for dtype in (np.float32, np.float64):
            values = {**parameters_of(strategy), **parameters}
            initial, delta = np.zeros(500, dtype), np.ones(500, dtype)
            made = session_of(initial, kind, strategy, workers=2, alpha=-1, parameters=values)
            with made as (graph, running):
                in_threads(graph, running, workers=2, steps=50, delta=delta)
                stats = graph.tracker.stats(running)
                found = np.unique(running.run(graph.variable)).tolist()
            report[f"{kind} {dtype.__name__}"] = {"values": found, "counters": stats.counters, "aborts": stats.aborts}
    return report


if __name__ == "__main__":
    task, strategy, parameters, arguments = sys.argv[1:]
    print(json.dumps(globals()[task](strategy, json.loads(parameters), **json.loads(arguments))))
