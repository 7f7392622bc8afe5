"""A trial of each strategy in a separate process, started with the environment that the strategy needs.

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
from tmflow.native import availability, loader, registry, stock
from tmflow.spec.process_env import process_environment
from tmflow.spec.strategies import parameters_of

THREADS, UPDATES, ELEMENTS = 4, 50, 1000
_SIZE = f"{THREADS} threads made {UPDATES} updates each of {ELEMENTS:,} elements"
LIMIT_S = 30.0
TENSORFLOW_LIMIT_S = 120.0  # to import TensorFlow from a cold disk, and to try its pair
PROBES = 100
_WATCHED = "the process of its trial was watched"
_LOST = "it violates its consistency: updates are lost"


@dataclass(frozen=True)
class Trial:
    """The outcome of trying a strategy: why it does not run here (None if it does), and how that was determined."""

    strategy: str
    why_not: str | None
    how: str


def try_each(strategies: Sequence[str]) -> dict[str, Trial]:
    """Try strategies in parallel, each in a separate process; TensorFlow's own pair shares one."""
    of_tensorflow = [name for name in strategies if name in stock.LOCKING]
    native = [[name] for name in strategies if name not in stock.LOCKING]
    groups = [of_tensorflow, *native] if of_tensorflow else native  # the slowest starts first
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {trial.strategy: trial for trials in pool.map(_in_process, groups) for trial in trials}


def _in_process(strategies: list[str]) -> list[Trial]:
    """Try strategies that need the same environment in a new process."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **process_environment(strategies[0], {})}
    command = [sys.executable, "-m", "tmflow.native.self_test", *strategies]
    limit_s = TENSORFLOW_LIMIT_S if strategies[0] in stock.LOCKING else LIMIT_S
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return [Trial(name, f"its trial took longer than {limit_s:g} s", _WATCHED) for name in strategies]
    if done.returncode == 0:
        return [Trial(**json.loads(line)) for line in done.stdout.splitlines()]
    end = f"its trial failed: {(done.stderr.strip() or 'it printed no message').splitlines()[-1]}"
    if done.returncode < 0:
        end = f"its trial was ended by {signal.Signals(-done.returncode).name}"
    return [Trial(name, end, _WATCHED) for name in strategies]


def try_here(strategy: str) -> Trial:
    """Try a strategy in this process."""
    if strategy in stock.LOCKING:
        return _stock(strategy)
    try:
        core = loader.core()
        resolved = registry.resolve(strategy)
        reason = availability.why_not(resolved)
    except (BadInput, Unsupported) as error:
        return Trial(strategy, str(error), "its library was loaded")
    details = _DETAILS[strategy]() if strategy in _DETAILS else ""
    if reason:
        return Trial(strategy, reason, details or "the native library was asked")
    report = core.audit(strategy, THREADS, UPDATES, ELEMENTS)
    is_exact = not (report["lost"] or report["doubled"] or report["corrupt_elements"])
    result = "; ".join([*filter(None, [details]), f"{_SIZE}: {_format_loss(report['lost'] / report['expected'])}"])
    return Trial(strategy, None if is_exact or resolved.entry.update_consistency == "none" else _LOST, result)


def _stock(strategy: str) -> Trial:
    """Try TensorFlow's own update in a session."""
    import numpy as np
    import tensorflow as tf

    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.Variable(np.zeros(ELEMENTS, np.float32), use_resource=False)
        target = variable.op.outputs[0]
        locking = stock.LOCKING[strategy]
        update = tf.raw_ops.ApplyGradientDescent(var=target, alpha=-1.0, delta=tf.ones(ELEMENTS), use_locking=locking)
        session.run(variable.initializer)
        step = session.make_callable(update.op)

        def work(thread: int) -> None:
            for _ in range(UPDATES):
                step()

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        result = session.run(variable)
    loss = f"{_SIZE} in a session: {_format_loss(1 - float(result.mean()) / (THREADS * UPDATES))}"
    is_broken = locking and not (result == THREADS * UPDATES).all()
    return Trial(strategy, _LOST if is_broken else None, loss)


def _format_loss(fraction: float) -> str:
    return f"{100 * fraction:.1f} % lost" if fraction else "nothing lost"


def _describe_transactions() -> str:
    """The outcome of trial transactions on this processor."""
    probe = loader.core().tm_probe(PROBES)
    if not probe["reported"]:
        return "the processor reports no transactions, so none was tried"
    return f"{probe['committed']} of {probe['tried']} trial transactions committed"


def _describe_elision() -> str:
    """Describe how glibc treats the mutexes of this process."""
    tunables = availability.tunables_in_force() or {}
    enabled = f"glibc.elision.enable is {tunables.get('glibc.elision.enable', 'not known')} in its process"
    if loader.core().why_not("tle"):
        return f"{enabled}, and a mutex, read back, is not elided"
    return f"{enabled}, and a mutex, read back, is elided; {_count_commits('tle')}"


def _describe_itm() -> str:
    """Describe the library that runs GCC's transactions in this process."""
    library = loader.core().tm_library()
    if library is None or loader.core().why_not("itm"):
        return ""
    return f"{Path(library).name}, method {parameters_of('itm')['method']}; {_count_commits('itm')}"


def _count_commits(strategy: str) -> str:
    """Count how many updates of one thread commit."""
    import numpy as np

    region = loader.core().Region(np.zeros(ELEMENTS, np.float32))
    for _ in range(PROBES):
        region.apply(strategy, 1.0, np.ones(ELEMENTS, np.float32))
    (row,) = region.counters()
    return f"{row['commits']} of {PROBES} trial updates committed as transactions"


_DETAILS: dict[str, Callable[[], str]] = {
    "htm": _describe_transactions,
    "htm_if_fits": _describe_transactions,
    "tle": _describe_elision,
    "itm": _describe_itm,
}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(asdict(try_here(name))), flush=True)
