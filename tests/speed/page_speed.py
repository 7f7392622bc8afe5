"""Measure the speed of the portal's pages: python -m tests.speed.page_speed FOLDER REPORT.md

FOLDER has databases made by tests.speed.many_runs, runs-<n>.db; REPORT is the Markdown file to write. Visitors without
a browser (tests/portal/session.py) open the pages, so times are the server's. For comparable numbers, pin it to two
processors: taskset -c 0,1.
"""

from __future__ import annotations

import asyncio
import math
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import NamedTuple

import psutil

from tests.portal.serving import serve_process
from tests.portal.session import Session, View
from tests.speed.visits import Visit, visits
from tests.support import command_line
from tests.support.sample_runs import sample_runs
from tmflow.base.clock import utc_now
from tmflow.base.files import write_text
from tmflow.benchmark.text import state
from tmflow.platform.facts import display_name, platform_facts
from tmflow.runfile import record
from tmflow.runfile.record import MachineState
from tmflow.runner import machine_load
from tmflow.store.engine import open_reader, sqlite_url
from tmflow.store.ingest import ingest

REPEATS = 3
SESSIONS = 50
PAGES_EACH = 6
PAUSE_S = 10.0  # mean time that a visitor looks at a page before the next
LINE = 120  # characters of the report
LOADED = 100_000  # runs of the database that many visitors look at
TARGETS = {100_000: (1.5, 0.5), 1_000_000: (2.5, 1.0)}  # seconds: first useful chart of a page, and a changed filter


class Times(NamedTuple):
    """Medians over the views of a page: seconds to the first chart or table and to the end; kB sent."""

    first_s: float
    whole_s: float
    sent_kb: float


class Measured(NamedTuple):
    """A page when it is opened, and after changes: for the first time, and after somebody has seen it."""

    cold: View
    opened: Times
    new: Times
    seen: Times


async def page_times(address: str, visits: Sequence[Visit]) -> dict[str, Measured]:
    """Each page as visitors find it: the first one after the data has changed, for whom nothing is kept, and others."""
    async with Session(address) as visitor:
        cold = {visit.name: await whole(visitor, visit.page, visit.opens) for visit in visits}
        measured = {}
        for name, page, opens, changes in visits:
            opened = [await whole(visitor, page, opens) for _ in range(REPEATS)]
            new = [await whole(visitor, page, query) for query in changes]
            seen = [await whole(visitor, page, query) for query in changes]
            measured[name] = Measured(cold[name], medians(opened), medians(new or opened), medians(seen or opened))
    return measured


async def whole(visitor: Session, page: str, query: str) -> View:
    """A view that must not fail."""
    view = await visitor.view(page, query)
    if view.failure is not None:
        raise SystemExit(f"page '{page}' with '{query}' failed: {view.failure}")
    return view


def medians(views: Sequence[View]) -> Times:
    """The medians for one page."""
    return Times(
        statistics.median(view.first_s for view in views),
        statistics.median(view.whole_s for view in views),
        statistics.median(view.n_bytes for view in views) / 1e3,
    )


async def memory_of(address: str, server: psutil.Process, n_sessions: int, visits: Sequence[Visit]) -> float:
    """MB that the server holds while that many visitors have each opened every page, and changed it in a way of their
    own as far as there are so many.
    """
    async with AsyncExitStack() as stack:
        for number in range(n_sessions):
            visitor = await stack.enter_async_context(Session(address))
            for _, page, opens, changes in visits:
                await whole(visitor, page, opens)
                for query in changes[number : number + 1]:
                    await whole(visitor, page, query)
        return float(server.memory_info().rss) / 1e6


async def load(address: str, visits: Sequence[Visit]) -> list[View]:
    """What `SESSIONS` visitors at once got, each of whom looks at `PAGES_EACH` pages, some of them with a change."""
    chance = random.Random(2017)
    views = [(page, query) for _, page, opens, changes in visits for query in (opens, *changes)]
    ways = [[chance.choice(views) for _ in range(PAGES_EACH)] for _ in range(SESSIONS)]
    pauses = [[chance.expovariate(1 / PAUSE_S) for _ in range(PAGES_EACH)] for _ in range(SESSIONS)]

    async def visit(way: Sequence[tuple[str, str]], looks: Sequence[float]) -> list[View]:
        async with Session(address) as visitor:
            seen = []
            for (page, query), look_s in zip(way, looks, strict=True):
                await asyncio.sleep(look_s)
                seen.append(await visitor.view(page, query))
            return seen

    of_all = await asyncio.gather(*(visit(way, looks) for way, looks in zip(ways, pauses, strict=True)))
    return [view for of_one in of_all for view in of_one]


async def load_beside_a_study(
    address: str, database: Path, visits: Sequence[Visit]
) -> tuple[list[View], list[float], list[float]]:
    """As `load`; and the seconds that each ingest of a round took which a study made alone, and all the while."""
    with rounds(database.parent) as files:

        def ingest_s() -> float:
            file = next(files)
            start = time.perf_counter()
            ingest(sqlite_url(database), [file])
            return time.perf_counter() - start

        async with Session(address) as visitor:  # a warm server: each view was opened once
            for _, page, opens, changes in visits:
                for query in (opens, *changes):
                    await whole(visitor, page, query)
        alone = [ingest_s() for _ in range(2 * REPEATS)]
        ended, beside = asyncio.Event(), []

        async def study() -> None:
            while not ended.is_set():
                beside.append(await asyncio.to_thread(ingest_s))
                await asyncio.sleep(1)

        writing = asyncio.create_task(study())
        views = await load(address, visits)
        ended.set()
        await writing
    return views, alone, beside


@contextmanager
def rounds(folder: Path) -> Iterator[Iterator[Path]]:
    """Run files of one new round after another."""
    path = folder / "round.jsonl"

    def made() -> Iterator[Path]:
        for number in count(1):
            campaign = f"beside-the-load-{utc_now()}-{number}"
            record.write(path, sample_runs(("load",), ("lock", "nolock"), (1, 2, 4), 1, campaign=campaign))
            yield path

    try:
        yield made()
    finally:
        path.unlink(missing_ok=True)


def report(folder: Path) -> Iterator[str]:
    """The lines of the report, as they are measured."""
    yield from head()
    before = machine_load.sample()
    for size in sorted(int(path.stem.removeprefix("runs-")) for path in folder.glob("runs-*.db")):
        database = folder / f"runs-{size}.db"
        timed = visits(open_reader(sqlite_url(database)))
        with serve_process(f"sqlite:///{database}") as (address, pid):
            measured = asyncio.run(page_times(address, timed))
            held = asyncio.run(memory_of(address, psutil.Process(pid), 10, timed))
            yield from of_size(size, measured, held)
        if size == LOADED:
            with TemporaryDirectory(dir=folder) as own:  # only a copy is written to
                copy = Path(shutil.copy(database, own))
                with serve_process(f"sqlite:///{copy}") as (address, _):
                    yield from of_load(*asyncio.run(load_beside_a_study(address, copy, timed)))
    meanwhile = MachineState(**machine_load.between(before, machine_load.sample()))
    yield f"The machine meanwhile: {state(meanwhile)}."


def head() -> Iterator[str]:
    """The head of the report: what was measured, and on which machine."""
    yield "# How fast the portal is"
    yield ""
    yield from wrap(
        f"{display_name(platform_facts())}, {len(psutil.Process().cpu_affinity() or [])} processors for server and "
        f"visitors together; {utc_now()[:10]}. Written by `python -m tests.speed.page_speed`.",
        LINE,
    )
    yield ""
    yield from wrap(
        "Medians in seconds, measured by a visitor without a browser, so the times are the server's. *First*: until "
        "the first chart or table of an opened page; *cold*: the same for the first visitor after the data has "
        "changed, when nothing is cached. *Change*: until the complete page after a change of a filter, platform or "
        "run; *new* if nobody has viewed that before, *seen* if somebody has. *Sent*: size of the messages for a new "
        "view. Numbers in bold miss their targets.",
        LINE,
    )
    yield ""


def of_size(size: int, measured: Mapping[str, Measured], held: float) -> Iterator[str]:
    """The table for one database."""
    yield f"## {size:,} runs"
    yield ""
    first, change = TARGETS.get(size, (math.inf, math.inf))
    if size in TARGETS:
        yield f"Targets: first chart {first} s, a change {change} s, 600 MB."
        yield ""
    yield "| page | first | first, new | cold | change, seen | change, new | sent, kB |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for page, (cold, opened, new, seen) in measured.items():
        firsts = [_number(timed, first) for timed in (opened.first_s, new.first_s, cold.first_s)]
        changes = [_number(timed, change) for timed in (seen.whole_s, new.whole_s)]
        yield f"| {' | '.join([page, *firsts, *changes, f'{new.sent_kb:,.0f}'])} |"
    yield ""
    yield f"The server used {held:.0f} MB with 10 sessions."
    yield ""


def _number(seconds: float, target: float) -> str:
    return f"**{seconds:.2f}**" if seconds > target else f"{seconds:.2f}"


def of_load(views: Sequence[View], alone: Sequence[float], beside: Sequence[float]) -> Iterator[str]:
    """The table for many concurrent visitors."""
    ended = sorted(view.whole_s for view in views)
    p50, p95 = (ended[round(share * (len(ended) - 1))] for share in (0.5, 0.95))
    n_failed = sum(view.failure is not None for view in views)
    yield from wrap(
        f"{SESSIONS} concurrent visitors of a warm server each opened {PAGES_EACH} pages and viewed each for "
        f"{PAUSE_S:g} s on average: {len(views)} pages, {n_failed} failed; half of them were complete in {p50:.2f} s, "
        f"95 % in {p95:.2f} s (target: 4 s), the slowest in {ended[-1]:.2f} s. Meanwhile a study stored {len(beside)} "
        f"rounds with pauses of a second: the median took {statistics.median(beside):.2f} s, the slowest "
        f"{max(beside):.2f} s; without visitors {statistics.median(alone):.2f} and {max(alone):.2f} s.",
        LINE,
    )
    yield ""


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("folder", type=command_line.folder, help="with databases runs-<n>.db")
    parser.add_argument("report", type=command_line.report, help="the Markdown file to write")
    asked = parser.parse_args()
    lines = []
    for line in report(asked.folder):
        print(line, flush=True)
        lines.append(line)
    write_text(asked.report, "\n".join(lines).rstrip() + "\n")
