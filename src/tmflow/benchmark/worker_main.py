"""The process in which the benchmark measures: JSON lines in, one answer each out.

`python -m tmflow.benchmark.worker_main` is started by `tmflow.base.processes` with the environment that a variant
needs. A request names a strategy, its `parameters` as the library takes them, and the `values` of all that it has. With
`threads`, `updates`, `elements` and `gradient` it asks for a measurement of updates, with `readers`, `writers`,
`reads`, `elements` and `consistent` for one of reads; without, whether the strategy runs in this process. An answer to
what cannot be done has the key "error".
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from tmflow.native import availability, loader
from tmflow.spec.strategies import STRATEGY_PARAMETERS


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a request. Raises ValueError where the strategy cannot run."""
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
    """What was measured. Raises ValueError where this process is not as the strategy needs it."""
    if reason := _other_process(request):
        raise ValueError(reason)
    return measured


def _other_process(request: dict[str, Any]) -> str | None:
    """Why this process is not as the strategy needs it: read back before all measurements and after each."""
    strategy = request["strategy"]
    if strategy not in STRATEGY_PARAMETERS:  # a reference of the benchmark's own
        return availability.mutexes_elided()
    return availability.why_not(strategy, request["values"])


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the benchmark, which ends its workers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    for line in sys.stdin:
        try:
            result = answer(json.loads(line))
        except (ValueError, RuntimeError, MemoryError) as error:
            result = {"error": str(error) or type(error).__name__}
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
