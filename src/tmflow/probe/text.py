"""A probe as text: a line for each quantity, and the reason for each that is unknown."""

from __future__ import annotations

from collections.abc import Iterator

from tmflow.probe.document import Capacity, Conflicts, Machine, Part, Probe, Siblings, Transactions

Line = tuple[str, str]


def table(probe: Probe) -> str:
    """Format a probe as two aligned columns."""
    lines = list(quantities(probe))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in lines)


def quantities(probe: Probe) -> Iterator[Line]:
    """The names and values of all quantities of a probe; a line without a name continues the one before."""
    what = "this machine" if probe.emulates is None else f"emulated: {probe.emulates}"
    yield "probed", f"{what}, in {probe.seconds:.0f} s"
    yield from _transactions(probe.transactions)
    yield from _machine(probe.machine)
    for row in probe.limits.update_ns or ():
        yield f"update of {row.elements:,} floats", f"{row.ns:,.{0 if row.ns >= 10 else 1}f} ns by one thread alone"
    yield from _unknown("limits", probe.limits)


def _transactions(transactions: Transactions) -> Iterator[Line]:
    states = (
        "reported" if transactions.reported else "not reported",
        "enabled" if transactions.enabled else "not enabled",
        "and commit" if transactions.commits else "and none commits",
    )
    yield "transactions", ", ".join(states)
    if transactions.tried:
        yield "trial transactions", f"{transactions.committed} of {transactions.tried} committed"
    if transactions.capacity:
        yield from _capacity(transactions.capacity)
    if transactions.conflicts:
        yield from _conflicts(transactions.conflicts)
    if transactions.siblings:
        yield from _siblings(transactions.siblings)
    if asynchronous := transactions.asynchronous:
        if touching := asynchronous.touching:
            at_most = touching.per_line_at_most
            yield "asynchronous aborts", f"{touching.per_line:.2g} for each line touched (at most {at_most:.2g})"
        if staying := asynchronous.staying:
            yield "", f"{staying.per_second:,.0f} a second in transactions of {staying.microseconds_each:.0f} us"
        yield from _unknown("asynchronous aborts", asynchronous)
    if costs := transactions.costs:
        costs_ns = ((name, getattr(costs, f"{name}_ns")) for name in ("empty", "begin", "commit", "abort"))
        yield "cost", ", ".join(f"{name} {ns:.1f} ns" for name, ns in costs_ns if ns is not None)
        yield from _unknown("cost", costs)
    yield from _unknown("transactions", transactions)


def _capacity(capacity: Capacity) -> Iterator[Line]:
    if capacity.sets and capacity.ways and capacity.line_bytes:
        sets = f"{capacity.sets} sets of " if capacity.shape == "cache" else ""
        unit = "ways" if capacity.shape == "cache" else "entries"
        yield "capacity", f"{sets}{capacity.ways} {unit}, lines of {capacity.line_bytes} bytes"
    named = {"written": capacity.write_lines, "read": capacity.read_lines, "half and half": capacity.mixed_lines}
    for name, lines in named.items():
        if lines is not None:
            yield f"lines {name}", f"{lines:,} commit in half of the tries"
    if capacity.reads_fill is not None:
        yield "reads take room", "yes" if capacity.reads_fill else "no"
    yield from _unknown("capacity", capacity)


def _conflicts(conflicts: Conflicts) -> Iterator[Line]:
    if conflicts.readers_abort_writers is not None:
        yield "readers abort writers", "yes" if conflicts.readers_abort_writers else "no"
    for pair in conflicts.pairs or ():
        where = "in transactions" if pair.other_in_transactions else "outside"
        text = f"{pair.share:.0%} of transactions that {pair.mine} commit, alone {pair.alone_share:.0%}"
        yield f"beside {'reads' if pair.other == 'read' else 'writes'} {where}", text
    yield from _unknown("conflicts", conflicts)


def _siblings(siblings: Siblings) -> Iterator[Line]:
    if siblings.sharing_threads is not None:
        yield "threads that share", f"{siblings.sharing_threads} of a core"
    named = {
        "alone": siblings.alone_lines,
        "beside transactions": siblings.beside_transactions_lines,
        "beside loads": siblings.beside_loads_lines,
    }
    with_lines = [f"{name} {lines:,}" for name, lines in named.items() if lines is not None]
    if with_lines:
        yield "lines with a sibling", ", ".join(with_lines)
    yield from _unknown("siblings", siblings)


def _machine(machine: Machine) -> Iterator[Line]:
    if machine.line_transfer:
        for row in machine.line_transfer.relations:
            yield "line transfer", f"{row.median_ns:.0f} ns within {row.relation} ({row.pairs} pairs of processors)"
    if machine.lock_handoff:
        for name, lock in (("mutex", machine.lock_handoff.mutex), ("spin lock", machine.lock_handoff.spin)):
            handoff = f", handed over in {lock.handoff_ns:,.0f} ns" if lock.handoff_ns is not None else ""
            yield name, f"{lock.alone_ns:.1f} ns alone{handoff}"
            yield from _unknown(name, lock)
    if machine.memory_bandwidth:
        for rates in machine.memory_bandwidth.rows:
            threads = f"{rates.threads} thread{'s' if rates.threads > 1 else ''}"
            yield f"memory, {threads}", f"{rates.read_gb_per_s:.1f} GB/s read, {rates.update_gb_per_s:.1f} GB/s updated"
    if machine.smt_yield:
        compute, update = machine.smt_yield.compute, machine.smt_yield.update
        yield "two threads of a core", f"{compute:.2f} of one thread's arithmetic, {update:.2f} of its updates"
    yield from _unknown("machine", machine)


def _unknown(of: str, part: Part) -> Iterator[Line]:
    """Each reason once, with all quantities that it applies to."""
    by_reason: dict[str, list[str]] = {}
    for name, why in part.why.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield f"{of}: not known", f"{', '.join(sorted(names))}: {why}"
