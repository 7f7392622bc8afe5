"""The process in which the benchmark measures: it answers each request, a line of JSON, with another line.

`tmflow.base.processes` starts `python -m tmflow.benchmark.worker_main` with the environment that a variant needs. A
request names a strategy, its `parameters` as the library takes them, and the `values` of all its parameters. With
`threads`, `updates`, `elements` and `gradient` it asks for a measurement of updates, with `readers`, `writers`,
`reads`, `elements` and `consistent` for one of reads. With neither it asks whether the strategy runs in this process.
The answer to a request that fails has the key "error".
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from tmflow.native import availability, loader
from tmflow.native.registry import resolve
from tmflow.spec.strategies import STRATEGY_PARAMETERS


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request. Raises ValueError if the strategy cannot run."""
    core = loader.core()
    strategy, parameters = request["strategy"], request["parameters"]
    if "elements" not in request:
        why_not = {row["name"]: row["why_not"] for row in core.strategies()}.get(strategy)
        if why_not is None and strategy != "memcpy":
            core.measure(strategy, 1, 1, 1, parameters)
            why_not = _other_process(request)
        return {"why_not": why_not}
    if "reads" in request:
        measured = core.measure_reads(
            *(strategy, request["readers"], request["writers"], request["reads"], request["elements"]),
            *(parameters, request["consistent"]),
        )
        return _unless_elsewhere(request, dict(measured))
    size = request["threads"], request["updates"], request["elements"]
    if strategy == "memcpy":
        return dict(core.measure_copies(*size))
    fresh = request["gradient"] == "fresh"
    return _unless_elsewhere(request, dict(core.measure(strategy, *size, parameters, fresh_gradient=fresh)))


def _unless_elsewhere(request: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    """Return the measurement. Raises ValueError if this process lacks the environment that the strategy needs."""
    if reason := _other_process(request):
        raise ValueError(reason)
    return measured


def _other_process(request: dict[str, Any]) -> str | None:
    """The reason why this process is unsuitable for the strategy, None if it is suitable."""
    strategy = request["strategy"]
    if strategy not in STRATEGY_PARAMETERS:  # a reference of the benchmark
        return availability.mutexes_elided()
    return availability.why_not(resolve(strategy, request["values"]))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the benchmark handles Ctrl-C and ends its workers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    for line in sys.stdin:
        try:
            result = answer(json.loads(line))
        except (ValueError, RuntimeError, MemoryError) as error:
            result = {"error": str(error) or type(error).__name__}
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
