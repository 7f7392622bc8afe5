"""Who works where: one study on a machine, one pipeline in a results folder, and steps that may outlive theirs.

The kernel keeps the locks and releases one when the last process that holds it ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from tmflow.base.clock import utc_now
from tmflow.base.errors import BadInput
from tmflow.base.paths import lock_dir
from tmflow.base.processes import Stopped

ASK_EVERY_S = 0.2  # whether a lock is free, while it is waited for

# Shows how it goes until what it is given says that the wait is over, which takes up to so many seconds to say.
Watch = Callable[[Callable[[float], bool]], None]


class Holder(BaseModel):
    """The study that holds the machine, as it wrote into the lock."""

    model_config = ConfigDict(extra="forbid")

    pid: int
    process_created_s: float  # a process id comes again, this does not
    since_utc: str
    results: str

    @property
    def lives(self) -> bool:
        try:
            created_s: float = psutil.Process(self.pid).create_time()
            return created_s == self.process_created_s
        except psutil.Error:
            return False


def in_silence(ended: Callable[[float], bool]) -> None:
    """A `Watch` that shows nothing."""
    while not ended(60):
        pass


@contextmanager
def machine_for_a_study(results: Path, watch: Watch = in_silence) -> Iterator[int]:
    """Hold the machine for a study into `results`; the lock's file descriptor is for Snakemake to inherit.

    Raises BadInput, saying who, where another study holds it. Waits for what a killed study left at work in the same
    results folder: that goes on with what this one would do. Raises Stopped if somebody stops the wait.
    """
    path = lock_dir() / "tmflow-study.lock"
    try:
        handle = _open(path, shared=True)
    except OSError as error:
        raise BadInput(f"the lock of studies, {path}, cannot be opened: {error.strerror}.") from error
    try:
        if not _taken(handle):
            _refuse_if_alive(_holder(handle), results)
            _wait(handle, f"what a study that was killed began is still at work in {results}", watch)
        me = psutil.Process()
        holder = Holder(
            pid=me.pid, process_created_s=me.create_time(), since_utc=utc_now(), results=str(results.resolve())
        )
        os.ftruncate(handle, 0)
        os.pwrite(handle, holder.model_dump_json().encode(), 0)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def results_to_itself(results: Path, watch: Watch = in_silence) -> Iterator[int]:
    """Hold the results folder, when no step is at work in it any more; waits, and says so, as `machine_for_a_study`.

    The lock's file descriptor is for Snakemake to inherit: one that outlives its command still holds the folder.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
        handle = _open(results / ".lock")
        steps = _open(results / ".steps")
    except OSError as error:
        raise BadInput(f"the results folder {results} cannot be written: {error.strerror}.") from error
    try:
        if not _taken(handle):
            _wait(handle, f"another study is at work in {results}", watch)
        if not _taken(steps):
            _wait(steps, f"a step of a study that was killed is still at work in {results}", watch)
        os.close(steps)  # it is for the steps to come
        yield handle
    finally:
        os.close(handle)


def step_at_work(results: Path) -> None:
    """From here to the end of this process a step is at work in the results folder, beside others; and for longer if a
    child has inherited that (`close_fds=False`) and lives longer.
    """
    results.mkdir(parents=True, exist_ok=True)
    handle = _open(results / ".steps")
    os.set_inheritable(handle, True)
    fcntl.flock(handle, fcntl.LOCK_SH)


def _refuse_if_alive(holder: Holder | None, results: Path) -> None:
    if holder is None:
        raise BadInput("another study holds this machine; wait for it to end, or stop it.")
    if holder.lives:
        raise BadInput(
            f"another study holds this machine: process {holder.pid}, since {holder.since_utc}, with the results "
            f"folder {holder.results}; wait for it to end, or stop it."
        )
    if holder.results != str(results.resolve()):
        raise BadInput(
            f"another study holds this machine: it was killed, and what it began in {holder.results} is not at its "
            "end yet; wait for that."
        )


def _open(path: Path, *, shared: bool = False) -> int:
    """The lock file, made if need be; a `shared` one belongs to every user of the machine."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        if shared:
            os.fchmod(handle, 0o666)  # whatever the umask
    except FileExistsError:  # without O_CREAT: in /tmp the kernel denies that for the file of another user
        handle = os.open(path, os.O_RDWR)
    return handle


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken_within(handle: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not _taken(handle):
        if time.monotonic() >= deadline:
            return False
        time.sleep(ASK_EVERY_S)
    return True


def _wait(handle: int, why: str, watch: Watch) -> None:
    """Wait for a lock. Raises Stopped if somebody stops that: what holds the lock goes on."""
    print(f"tmflow: {why}{_named(_at_work(handle))}; waiting for it to end.", file=sys.stderr, flush=True)
    try:
        watch(lambda within_s: _taken_within(handle, within_s))
    except (KeyboardInterrupt, SystemExit) as stop:
        pids = _at_work(handle)
        ends = f"; `kill {' '.join(map(str, pids))}` ends that" if pids else ""
        raise Stopped(f"stopped waiting; {why}{_named(pids)}, and goes on{ends}.", stop) from None


def _named(pids: list[int]) -> str:
    return f" (process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))})" if pids else ""


def _at_work(handle: int) -> list[int]:
    """The processes, this one aside, that have a lock open, and all that they have started; of this user alone."""
    path = str(Path(f"/proc/self/fd/{handle}").readlink())
    found: set[int] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and any(file.path == path for file in process.open_files()):
                found |= {process.pid, *(child.pid for child in process.children(recursive=True))}
    return sorted(found)


def _holder(handle: int) -> Holder | None:
    """None in the instant between a study's taking the lock and its saying so."""
    try:
        return Holder.model_validate_json(os.pread(handle, 4096, 0))
    except ValidationError:
        return None
