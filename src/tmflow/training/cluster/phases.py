"""Where the time of a worker's step goes, and what it transfers, from TensorFlow's own trace of some steps.

TensorFlow records for each operation when it was ready and when it ran, and for each tensor that a task received from
another its bytes, when its sender began and when it had arrived. Tasks on one machine have one clock, so the times
compare; those of tasks on several machines do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# The phases in the order of preference: where several overlap, the time is that of the first.
PHASES = ("apply", "compute", "send", "receive", "queue", "other")
UPDATES = re.compile("= (Tmflow(Resource)?Apply|ApplyGradientDescent|(Resource)?AccumulatorApplyGradient)")
WAITING = re.compile("= QueueDequeue")
RECEIVED, ON_SERVER = "RecvTensor", "/job:ps/"
TRANSFERS = ("send", "receive")  # the phases in which tensors are on their way
OF_THE_GRAPH = re.compile("_SOURCE|_SINK")


class Span(NamedTuple):
    """A time in a phase, in microseconds."""

    phase: str
    start: int
    end: int


class Traffic(NamedTuple):
    """Tensors that tasks received from other tasks in a step: their number, and the bytes of their elements."""

    transfers: int
    bytes: int


class Sampler:
    """Runs a worker's steps, some of them traced, evenly spread over the trial."""

    def __init__(self, worker: int, traced: int) -> None:
        self._worker, self._traced = worker, traced
        self._every, self._steps = 0, 0
        self._samples: list[tuple[dict[str, float], dict[str, Traffic]]] = []

    def spread_over(self, steps: int) -> None:
        """Trace some of the worker's next steps."""
        self._every, self._steps = max(steps // self._traced, 1), 0

    def run(self, session: Any, step: Any, feeds: dict[Any, Any]) -> Any:
        """Run a step, and return its value."""
        self._steps += 1
        if not self._every or self._steps % self._every or len(self._samples) >= self._traced:
            return session.run(step, feeds)
        import tensorflow as tf

        tf1 = tf.compat.v1
        options, trace = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), tf1.RunMetadata()
        value = session.run(step, feeds, options=options, run_metadata=trace)
        self._samples.append((phases_of(trace.step_stats), traffic_of(trace.step_stats)))
        return value

    def rows(self) -> list[dict[str, Any]]:
        """The mean seconds of each phase over the traced steps; of those with transfers also their number and bytes.

        Every step transfers the same, so these are of the traced step with the most: TensorFlow may lose records of a
        server if another worker traces at the same moment.
        """
        n = len(self._samples)
        rows = list[dict[str, Any]]()
        for phase in PHASES if n else ():
            row: dict[str, Any] = {"phase": phase, "samples": n, "worker": self._worker}
            row["seconds"] = sum(seconds[phase] for seconds, _ in self._samples) / n
            if phase in TRANSFERS:
                row |= max(of[phase] for _, of in self._samples)._asdict()
            rows.append(row)
        return rows


def phases_of(step_stats: Any) -> dict[str, float]:
    """Seconds of each phase of a traced step; together they are the step, from its first to its last record."""
    spans = list(_spans(step_stats))
    if not spans:
        return dict.fromkeys(PHASES, 0.0)
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    seconds, taken = {}, list[tuple[int, int]]()
    for phase in PHASES[:-1]:
        before = _covered(taken)
        taken += [(span.start, span.end) for span in spans if span.phase == phase]
        seconds[phase] = (_covered(taken) - before) / 1e6
    return seconds | {"other": (end - start - _covered(taken)) / 1e6}


def traffic_of(step_stats: Any) -> dict[str, Traffic]:
    """What a traced step transfers: under `send` what servers received, under `receive` what workers did.

    TensorFlow sends a tensor once to each task that needs it. A control dependency is a transfer of 0 bytes, and the
    value of the step, which its worker fetches from a server, is a transfer, too. The bytes are those of the elements,
    without what gRPC adds.
    """
    received: dict[str, list[int]] = {phase: [] for phase in TRANSFERS}
    for device in step_stats.dev_stats:
        for node in device.node_stats:
            if node.node_name == RECEIVED:
                sizes = [one.tensor_description.allocation_description.requested_bytes for one in node.output]
                received[_direction(device.device)].append(sum(sizes))
    return {phase: Traffic(len(sizes), sum(sizes)) for phase, sizes in received.items()}


def _direction(receiver: str) -> str:
    """The phase in which this device receives a tensor."""
    return "send" if ON_SERVER in receiver else "receive"


def _spans(step_stats: Any) -> Iterator[Span]:
    for device in step_stats.dev_stats:
        on_server = ON_SERVER in device.device
        for node in device.node_stats:
            began = node.all_start_micros
            ran, ended = began + node.op_start_rel_micros, began + node.op_end_rel_micros
            if node.node_name == RECEIVED:
                yield Span(_direction(device.device), began, ended)
            elif OF_THE_GRAPH.match(node.node_name):
                yield Span("other", began, ended)
            elif not on_server:
                yield Span("compute", ran, ended)
            elif UPDATES.search(node.timeline_label):
                yield Span("queue", node.scheduled_micros, ran)
                yield Span("apply", ran, ended)
            elif WAITING.search(node.timeline_label):
                yield Span("queue", node.scheduled_micros, ended)
            else:
                yield Span("other", ran, ended)


def _covered(intervals: Iterable[tuple[int, int]]) -> int:
    """The length of the union of intervals."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total
