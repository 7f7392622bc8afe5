"""A probe for people: a line for each quantity, and why for each that is not known."""

from __future__ import annotations

from collections.abc import Iterator

from tmflow.probe.document import Capacity, Machine, Part, Probe, Siblings, Transactions

Line = tuple[str, str]


def table(probe: Probe) -> str:
    """The lines, their values below each other."""
    lines = list(quantities(probe))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in lines)


def quantities(probe: Probe) -> Iterator[Line]:
    """What was found, or not, and in words what of it; a line without a name goes on with the one before."""
    what = "this machine" if probe.emulates is None else f"emulated: {probe.emulates}"
    yield "probed", f"{what}, in {probe.seconds:.0f} s"
    yield from _transactions(probe.transactions)
    yield from _machine(probe.machine)
    for row in probe.limits.update_ns or ():
        yield f"update of {row.elements:,} floats", f"{row.ns:,.{0 if row.ns >= 10 else 1}f} ns by one thread alone"
    yield from _unknown("limits", probe.limits)


def _transactions(found: Transactions) -> Iterator[Line]:
    yield (
        "transactions",
        ", ".join(
            [
                "reported" if found.reported else "not reported",
                "enabled" if found.enabled else "not enabled",
                "and commit" if found.commits else "and none commits",
            ]
        ),
    )
    if found.tried:
        yield "trial transactions", f"{found.committed} of {found.tried} committed"
    if found.capacity:
        yield from _capacity(found.capacity)
    if found.conflicts:
        yield from _conflicts(found)
    if found.siblings:
        yield from _siblings(found.siblings)
    if found.asynchronous:
        if touching := found.asynchronous.touching:
            yield (
                "asynchronous aborts",
                f"{touching.per_line:.2g} for each line touched (at most {touching.per_line_at_most:.2g})",
            )
        if staying := found.asynchronous.staying:
            yield "", f"{staying.per_second:,.0f} a second in transactions of {staying.microseconds_each:.0f} us"
        yield from _unknown("asynchronous aborts", found.asynchronous)
    if costs := found.costs:
        known = ((name, getattr(costs, f"{name}_ns")) for name in ("empty", "begin", "commit", "abort"))
        yield "cost", ", ".join(f"{name} {ns:.1f} ns" for name, ns in known if ns is not None)
        yield from _unknown("cost", costs)
    yield from _unknown("transactions", found)


def _capacity(found: Capacity) -> Iterator[Line]:
    if found.sets and found.ways and found.line_bytes:
        how = f"{found.sets} sets of {found.ways} ways" if found.shape == "cache" else f"{found.ways} entries"
        yield "capacity", f"{how}, lines of {found.line_bytes} bytes"
    for name, lines in (
        ("written", found.write_lines),
        ("read", found.read_lines),
        ("half and half", found.mixed_lines),
    ):
        if lines is not None:
            yield f"lines {name}", f"{lines:,} commit in half of the tries"
    if found.reads_fill is not None:
        yield "reads take room", "yes" if found.reads_fill else "no"
    yield from _unknown("capacity", found)


def _conflicts(found: Transactions) -> Iterator[Line]:
    conflicts = found.conflicts
    assert conflicts is not None
    if conflicts.readers_abort_writers is not None:
        yield "readers abort writers", "yes" if conflicts.readers_abort_writers else "no"
    for pair in conflicts.pairs or ():
        where = "in transactions" if pair.other_in_transactions else "outside"
        text = f"{pair.share:.0%} of transactions that {pair.mine} commit, alone {pair.alone_share:.0%}"
        yield f"beside {'reads' if pair.other == 'read' else 'writes'} {where}", text
    yield from _unknown("conflicts", conflicts)


def _siblings(found: Siblings) -> Iterator[Line]:
    if found.sharing_threads is not None:
        yield "threads that share", f"{found.sharing_threads} of a core"
    named = (
        ("alone", found.alone_lines),
        ("beside transactions", found.beside_transactions_lines),
        ("beside loads", found.beside_loads_lines),
    )
    known = [f"{name} {lines:,}" for name, lines in named if lines is not None]
    if known:
        yield "lines with a sibling", ", ".join(known)
    yield from _unknown("siblings", found)


def _machine(found: Machine) -> Iterator[Line]:
    if found.line_transfer:
        for row in found.line_transfer.relations:
            yield "line transfer", f"{row.median_ns:.0f} ns within {row.relation} ({row.pairs} pairs of processors)"
    if found.lock_handoff:
        for name, lock in (("mutex", found.lock_handoff.mutex), ("spin lock", found.lock_handoff.spin)):
            handoff = f", handed over in {lock.handoff_ns:,.0f} ns" if lock.handoff_ns is not None else ""
            yield name, f"{lock.alone_ns:.1f} ns alone{handoff}"
            yield from _unknown(name, lock)
    if found.memory_bandwidth:
        for rates in found.memory_bandwidth.rows:
            threads = f"{rates.threads} thread{'s' if rates.threads > 1 else ''}"
            yield f"memory, {threads}", f"{rates.read_gb_per_s:.1f} GB/s read, {rates.update_gb_per_s:.1f} GB/s updated"
    if found.smt_yield:
        text = f"{found.smt_yield.compute:.2f} of one thread's arithmetic, {found.smt_yield.update:.2f} of its updates"
        yield "two threads of a core", text
    yield from _unknown("machine", found)


def _unknown(of: str, part: Part) -> Iterator[Line]:
    """Each reason once, with all that it is the reason for."""
    by_reason: dict[str, list[str]] = {}
    for name, why in part.why.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield f"{of}: not known", f"{', '.join(sorted(names))}: {why}"
