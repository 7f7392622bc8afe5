"""Does a strategy really run here? Tried in a process of its own, started with the environment that it needs.

`python -m tmflow.native.self_test STRATEGY ...` prints a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tmflow.base.errors import BadInput, Unsupported
from tmflow.native import availability, loader, registry
from tmflow.native.ops import STOCK_LOCKING
from tmflow.spec.process_env import process_environment
from tmflow.spec.strategies import parameters_of

THREADS, UPDATES, ELEMENTS = 4, 50, 1000
LIMIT_S = 30.0
PROBES = 100
_WATCHED = "the process of its trial was watched"


@dataclass(frozen=True)
class Trial:
    """What came of trying a strategy: why it does not run here (None if it does), and how that was found out."""

    strategy: str
    why_not: str | None
    how: str


def try_each(strategies: Sequence[str]) -> dict[str, Trial]:
    """Try strategies, each in a process of its own, several at a time; TensorFlow's own pair share one."""
    stock = [name for name in strategies if name in STOCK_LOCKING]
    shared = [stock] if stock else []
    groups = [*shared, *([name] for name in strategies if name not in STOCK_LOCKING)]  # the slowest starts first
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {trial.strategy: trial for trials in pool.map(_in_process, groups) for trial in trials}


def _in_process(strategies: list[str]) -> list[Trial]:
    """Try strategies that need the same environment in a new process."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **process_environment(strategies[0], {})}
    command = [sys.executable, "-m", "tmflow.native.self_test", *strategies]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return [Trial(name, f"its trial took longer than {LIMIT_S:g} s", _WATCHED) for name in strategies]
    if done.returncode == 0:
        return [Trial(**json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode < 0:
        end = f"its trial was ended by {signal.Signals(-done.returncode).name}"
    else:
        end = f"its trial failed: {(done.stderr.strip() or 'it said nothing').splitlines()[-1]}"
    return [Trial(name, end, _WATCHED) for name in strategies]


def try_here(strategy: str) -> Trial:
    """Try a strategy in this process."""
    if strategy in STOCK_LOCKING:
        return _stock(strategy)
    try:
        core = loader.core()
        reason = availability.why_not(strategy, {})
    except (BadInput, Unsupported) as error:
        return Trial(strategy, str(error), "its library was loaded")
    look = _LOOKS.get(strategy)
    seen = look() if look else ""
    if reason:
        return Trial(strategy, reason, seen or "the native library was asked")
    report = core.audit(strategy, THREADS, UPDATES, ELEMENTS)
    kept = not (report["lost"] or report["doubled"] or report["corrupt_elements"])
    result = "; ".join([*filter(None, [seen]), f"{_size()}: {_lost(report['lost'] / report['expected'])}"])
    if kept or registry.require(strategy).promise_updates == "none":
        return Trial(strategy, None, result)
    return Trial(strategy, "it breaks its promise: updates are not kept", result)


def _stock(strategy: str) -> Trial:
    """TensorFlow's own update in a session."""
    import numpy as np
    import tensorflow as tf

    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=False)
        target = variable.op.outputs[0]
        locking = STOCK_LOCKING[strategy]
        update = tf.raw_ops.ApplyGradientDescent(var=target, alpha=-1.0, delta=tf.ones(ELEMENTS), use_locking=locking)
        session.run(variable.initializer)
        _in_threads(session.make_callable(update.op))
        result = session.run(variable)
    loss = f"{_size()} in a session: {_lost(1 - float(result.mean()) / (THREADS * UPDATES))}"
    broken = locking and not (result == THREADS * UPDATES).all()
    return Trial(strategy, "it breaks its promise: updates are not kept" if broken else None, loss)


def _in_threads(call: Callable[[], object]) -> None:
    """Every thread calls as often as the trial has updates."""

    def work() -> None:
        for _ in range(UPDATES):
            call()

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work) for _ in range(THREADS)]:
            done.result()


def _size() -> str:
    return f"{THREADS} threads made {UPDATES} updates each of {ELEMENTS:,} elements"


def _lost(fraction: float) -> str:
    return f"{100 * fraction:.1f} % lost" if fraction else "nothing lost"


def _transactions() -> str:
    """What the processor does about transactions."""
    probe = loader.core().tm_probe(PROBES)
    if not probe["reported"]:
        return "the processor reports no transactions, so none was tried"
    return f"{probe['committed']} of {probe['tried']} trial transactions committed"


def _elision() -> str:
    """What glibc does about this process's mutexes."""
    tunables = availability.tunables_in_force() or {}
    enabled = f"glibc.elision.enable is {tunables.get('glibc.elision.enable', 'not known')} in its process"
    if loader.core().why_not("tle"):
        return f"{enabled}, and a mutex, read back, is not elided"
    return f"{enabled}, and a mutex, read back, is elided; {_counted('tle')}"


def _method() -> str:
    """What runs GCC's transactions in this process."""
    library = loader.core().tm_library()
    if library is None or loader.core().why_not("itm"):
        return ""
    return f"{Path(library).name}, method {parameters_of('itm')['method']}; {_counted('itm')}"


def _counted(strategy: str) -> str:
    """How updates in one thread ended."""
    import numpy as np

    region = loader.core().Region(np.zeros(ELEMENTS, np.float32))
    for _ in range(PROBES):
        region.apply(strategy, 1.0, np.ones(ELEMENTS, np.float32))
    (row,) = region.counters()
    return f"{row['commits']} of {PROBES} trial updates committed as transactions"


_LOOKS: dict[str, Callable[[], str]] = {"htm": _transactions, "tle": _elision, "itm": _method}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(asdict(try_here(name))), flush=True)
