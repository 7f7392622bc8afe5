"""Locks of the workflow: one study per machine, one pipeline per results folder, and steps that may outlive it.

The kernel holds the locks. It releases a lock when the last process that holds it ends, however it ends.
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
from tmflow.base.errors import BadInput, Stopped
from tmflow.base.paths import lock_dir

ASK_EVERY_S = 0.2  # interval of attempts to take a lock

# Shows progress until its argument returns True; the argument waits for the end, for up to the given seconds.
Watch = Callable[[Callable[[float], bool]], None]


class Holder(BaseModel):
    """The study that holds the machine, as recorded in the lock file."""

    model_config = ConfigDict(extra="forbid")

    pid: int
    process_created_s: float  # process ids are reused; the pair of id and time is not
    since_utc: str
    results: str

    @property
    def lives(self) -> bool:
        try:
            created_s: float = psutil.Process(self.pid).create_time()
            return created_s == self.process_created_s
        except psutil.Error:
            return False


def wait_silently(ended: Callable[[float], bool]) -> None:
    """A `Watch` that shows nothing."""
    while not ended(60):
        pass


@contextmanager
def machine_lock(results: Path, watch: Watch = wait_silently) -> Iterator[int]:
    """Lock the machine for a study into `results`; yield the lock's file descriptor, which Snakemake inherits.

    Raises BadInput, naming the holder, if another study holds the lock. Waits for processes that a killed study left in
    the same results folder, because they do the same work. Raises Stopped if the user stops the wait.
    """
    path = lock_dir() / "tmflow-study.lock"
    try:
        handle = _open(path, shared=True)
    except OSError as error:
        raise BadInput(f"the lock of studies, {path}, cannot be opened: {error.strerror}.") from error
    try:
        if not _try_lock(handle):
            _refuse_if_alive(handle, results)
            _wait(handle, f"a process that a killed study left is still at work in {results}", watch)
        me, folder = psutil.Process(), str(results.resolve())
        holder = Holder(pid=me.pid, process_created_s=me.create_time(), since_utc=utc_now(), results=folder)
        os.ftruncate(handle, 0)
        os.pwrite(handle, holder.model_dump_json().encode(), 0)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def results_lock(results: Path, watch: Watch = wait_silently) -> Iterator[int]:
    """Lock the results folder once no step works in it; waits, with a message, as `machine_lock` does.

    Snakemake inherits the lock's file descriptor: if it outlives its command, it still holds the folder.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
        handle = _open(results / ".lock")
        steps = _open(results / ".steps")
    except OSError as error:
        raise BadInput(f"the results folder {results} cannot be written: {error.strerror}.") from error
    try:
        if not _try_lock(handle):
            _wait(handle, f"another study is at work in {results}", watch)
        if not _try_lock(steps):
            _wait(steps, f"a step of a killed study is still at work in {results}", watch)
        os.close(steps)  # released for the steps that follow
        yield handle
    finally:
        os.close(handle)


def hold_for_step(results: Path) -> None:
    """Hold a shared lock for a step in the results folder until this process ends.

    A child that inherits the lock (`close_fds=False`) and lives longer keeps it for longer.
    """
    results.mkdir(parents=True, exist_ok=True)
    handle = _open(results / ".steps")
    os.set_inheritable(handle, True)
    fcntl.flock(handle, fcntl.LOCK_SH)


def _refuse_if_alive(handle: int, results: Path) -> None:
    """Raise BadInput if the holder of the lock lives, or is a killed study whose processes work in another folder."""
    try:
        holder = Holder.model_validate_json(os.pread(handle, 4096, 0))
    except ValidationError:  # in the instant before a new holder has written it
        raise BadInput("another study holds this machine; wait for it to end, or stop it.") from None
    if holder.lives:
        raise BadInput(
            f"another study holds this machine: process {holder.pid}, since {holder.since_utc}, with the results "
            f"folder {holder.results}; wait for it to end, or stop it."
        )
    if holder.results != str(results.resolve()):
        raise BadInput(
            f"another study holds this machine: it was killed, but its processes are still at work in "
            f"{holder.results}; wait for them to end."
        )


def _open(path: Path, *, shared: bool = False) -> int:
    """Open the lock file, and create it if necessary; every user of the machine can open a `shared` one."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        if shared:
            os.fchmod(handle, 0o666)  # regardless of the umask
    except FileExistsError:  # without O_CREAT: in /tmp the kernel denies that for the file of another user
        handle = os.open(path, os.O_RDWR)
    return handle


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(handle: int, why: str, watch: Watch) -> None:
    """Wait for a lock. Raises Stopped if the user stops the wait; the holder of the lock continues."""

    def ended(within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while not (is_locked := _try_lock(handle)) and time.monotonic() < deadline:
            time.sleep(ASK_EVERY_S)
        return is_locked

    print(f"tmflow: {why}{_named(_at_work(handle))}; waiting for it to end.", file=sys.stderr, flush=True)
    try:
        watch(ended)
    except (KeyboardInterrupt, SystemExit) as stop:
        pids = _at_work(handle)
        ends = f"; `kill {' '.join(map(str, pids))}` ends it" if pids else ""
        raise Stopped(f"stopped waiting; {why}{_named(pids)}, and continues{ends}.", stop) from None


def _named(pids: list[int]) -> str:
    return f" (process{'es' if len(pids) > 1 else ''} {', '.join(map(str, pids))})" if pids else ""


def _at_work(handle: int) -> list[int]:
    """The other processes of this user that have a lock open, and their descendants."""
    path = str(Path(f"/proc/self/fd/{handle}").readlink())
    pids: set[int] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and any(file.path == path for file in process.open_files()):
                pids |= {process.pid, *(child.pid for child in process.children(recursive=True))}
    return sorted(pids)
