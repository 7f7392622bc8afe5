"""Bundles that are made to take memory or time: of either, the check has bounds."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.changed_json import compact, lines_of, put, run_files
from tests.support.hostile_checks import in_bounds, world
from tests.support.raw_zips import CENTRAL, DEFLATED, END, Entry, zip_file
from tests.support.repacked import MANIFEST, Members, zipped

pytestmark = pytest.mark.slow


def twice_at_the_end(members: Members) -> None:
    """Who looks for the second of each from the first on compares a thousand million pairs."""
    entry = {"updates": 1, "variable": "W", "worker": 0}
    _one_run(members, {"counters": [entry | {"worker": min(worker, 59_998)} for worker in range(60_000)]})


def runs_twice_at_the_end(members: Members) -> None:
    """Who reads a file from its beginning for each of them reads it a thousand times."""
    name = run_files(members)[0]
    run = json.loads(lines_of(members, name)[0])
    few = json.loads(lines_of(members, run_files(members)[1])[0])
    small = compact(run | {"counters": [], "aborts": [], "staleness": [], "curve": []})
    lines = [small.replace(run["uid"], f"{number:08}") for number in range(4000)]
    put(members, name, [*lines, *([small] * 1000)])
    assert few["uid"] != run["uid"]


def many_small_parts_of_a_run(members: Members) -> None:
    """Three bytes in JSON are seventy in memory."""
    _one_run(members, {"environment": {"x": [[] for _ in range(1_380_000)]}})


def many_small_parts_of_a_document(members: Members) -> None:
    members["campaign.json"] = b'{"a":[' + b"[]," * 5_500_000 + b"[]]}"


def many_small_parts_of_the_manifest(members: Members) -> None:
    members[MANIFEST] = b'{"files":[' + b"[]," * 5_500_000 + b'[]],"format":"tmflow-bundle","version":1}'


def origins_that_differ(members: Members) -> None:
    """What runs share is remembered; these share nothing."""
    name = run_files(members)[0]
    run = json.loads(lines_of(members, name)[0])
    parts = [[0]] * 150_000
    put(members, name, [compact(run | {"environment": {"x": parts, "y": number}}) for number in range(60)])


def machines_that_differ(members: Members) -> None:
    name = run_files(members)[0]
    run = json.loads(lines_of(members, name)[0])
    letters = "a" * 1_000_000
    put(
        members,
        name,
        [compact(run | {"platform": run["platform"] | {"cpu_model": f"{letters}{n}"}}) for n in range(100)],
    )


def names_that_are_long(members: Members) -> None:
    """What is kept of a run until its file was read must not be what a stranger made long."""
    letters = "a" * 2_000_000
    name = run_files(members)[0]
    run = json.loads(lines_of(members, name)[0])
    put(members, name, [compact(run | {"uid": f"{letters}{number}"}) for number in range(100)])


GREEDY: list[Callable[[Members], None]] = [
    twice_at_the_end,
    runs_twice_at_the_end,
    many_small_parts_of_a_run,
    many_small_parts_of_a_document,
    many_small_parts_of_the_manifest,
    origins_that_differ,
    machines_that_differ,
    names_that_are_long,
]


def _one_run(members: Members, changes: dict[str, Any]) -> None:
    name = run_files(members)[0]
    first, *others = lines_of(members, name)
    put(members, name, [compact(json.loads(first) | changes), *others])


@pytest.fixture(scope="module")
def bounded() -> Iterator[Executor]:
    """A process of its own, whose memory is that of little but the check."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("change", GREEDY, ids=lambda change: change.__name__)
def test_a_greedy_bundle_is_refused_in_bounds(
    change: Callable[[Members], None], bounded: Executor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "greedy"
    members = dict(world(str(folder)).good)
    change(members)
    path = folder / "greedy.zip"
    path.write_bytes(zipped(members))
    wrong, sound = bounded.submit(in_bounds, str(path), str(folder)).result()
    assert not wrong
    assert not sound


def test_sixty_thousand_members_of_one_name_are_refused_in_bounds(bounded: Executor, tmp_path: Path) -> None:
    names = [b"logs/%d" % number for number in range(59_000)]
    path = tmp_path / "greedy.zip"
    path.write_bytes(zip_file([Entry(name, b"") for name in [*names, names[-1]]]))
    wrong, sound = bounded.submit(in_bounds, str(path), str(tmp_path)).result()
    assert not wrong
    assert not sound


MOST_MEMORY = 500_000_000  # bytes, of a process that checks a file as large as the portal takes


def wrong(n: int) -> dict[str, int]:
    """So many fields that nothing has."""
    return {f"a{number:x}": 0 for number in range(n)}


def wrong_fields_of_a_run(members: Members) -> None:
    _one_run(members, wrong(740_000))


def wrong_fields_of_an_entry(members: Members) -> None:
    _one_run(members, {"counters": [wrong(740_000)]})


def wrong_fields_within_bounds(members: Members) -> None:
    _one_run(members, wrong(400_000))


def wrong_fields_of_the_manifest(members: Members) -> None:
    members[MANIFEST] = compact({"files": [wrong(800_000)], "format": "tmflow-bundle", "version": 1}).encode()


def wrong_entries_of_the_manifest(members: Members) -> None:
    members[MANIFEST] = compact({"files": [0] * 4_500_000, "format": "tmflow-bundle", "version": 1}).encode()


WRONG = [
    wrong_fields_of_a_run,
    wrong_fields_of_an_entry,
    wrong_fields_within_bounds,
    wrong_fields_of_the_manifest,
    wrong_entries_of_the_manifest,
]


def long_names() -> bytes:
    return zip_file([Entry(b"", b"", central={"name": b"%08d" % n + b"x" * 65_000}) for n in range(900)])


def extra_fields() -> bytes:
    return zip_file([Entry(b"%08d" % n, b"", central={"extra": bytes(8 << 10)}) for n in range(7_000)])


def more_entries_than_it_says() -> bytes:
    """As many as fit into the directory of as many as are allowed, with names as long as are allowed."""
    directory = CENTRAL.pack(b"PK\1\2", *[0] * 16) * 980_000
    return directory + END.pack(b"PK\5\6", 0, 0, 60_000, 60_000, len(directory), 0, 0)


# What a process had in memory before it became another program counts as well, so a small one starts the check.
_MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
"""


def peak(path: Path) -> int:
    """The most memory that a process has of its own that checks this bundle, in bytes; it refuses it."""
    check = [sys.executable, "-m", "tmflow", "bundle", "verify", str(path)]
    measured = subprocess.run([sys.executable, "-c", _MEASURE, *check], capture_output=True, text=True, check=True)
    code, n_bytes = map(int, measured.stdout.split())
    assert code == 2
    return n_bytes


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change.__name__)
def test_wrong_fields_take_little_memory(
    change: Callable[[Members], None], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    members = dict(world(str(tmp_path_factory.getbasetemp() / "greedy")).good)
    change(members)
    path = tmp_path / "greedy.zip"
    path.write_bytes(zipped(members, DEFLATED))
    assert peak(path) < MOST_MEMORY


@pytest.mark.parametrize("made", [long_names, extra_fields, more_entries_than_it_says], ids=lambda made: made.__name__)
def test_names_and_extra_fields_take_little_memory(made: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "greedy.zip"
    path.write_bytes(made())
    assert peak(path) < MOST_MEMORY
