"""A task of a cluster that a person, or a scheduler such as Slurm, starts: each task by a command of its own.

Tasks start in any order. Each reports to the first server what it is and which versions it has, and waits for the
verdict of the chief (`cluster.chief`). During the training each watches the chief: if it ends too early, or the network
between them is cut, the task ends.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

from tmflow._version import __version__
from tmflow.base.errors import BadInput, Unsupported
from tmflow.base.text import printable
from tmflow.native import availability, loader
from tmflow.native.build import OPS_LIBRARY
from tmflow.native.registry import resolve
from tmflow.platform.facts import platform_facts
from tmflow.platform.software import tensorflow_version
from tmflow.runtime import GRPC, SECRET
from tmflow.spec.trial import TrialSpec
from tmflow.training.cluster import network
from tmflow.training.cluster.addresses import Addresses, is_loopback
from tmflow.training.cluster.driver import EVALUATED_IN_WARM_UP, WARM_UP_STEPS
from tmflow.training.cluster.mailbox import CHIEF_WORKER, FIRST_SERVER, Mailbox, Name, Words
from tmflow.training.cluster.task import Trainer, start_server
from tmflow.training.measurement import warm_up_spec

LOOK_UP_S = 0.5  # between two tries to resolve the name of a host
GRACE_S = 10.0  # for words that are on their way
LAST_WORD_S = 5.0  # between the end of a task and the word that it may end, which is on its way to this one
LIMIT_S = 24 * 3600.0  # for the other workers, between two pauses of the training
CONTAINER = "byhand"  # letters and digits only
# Queues: of reports, on the first server; of the chief's words to a task, on that task; of workers that have trained,
# on the chief.
ARRIVED, WORDS, TRAINED = "arrived", "words", "trained"
AddressInfo = tuple[Any, ...]  # of a socket, as `socket.getaddrinfo` returns them


_SAYING = threading.RLock()


def say(sentence: str) -> None:
    """Tell the person at the console, who may have closed it."""
    with _SAYING, suppress(OSError):
        sys.stderr.write(f"tmflow: {sentence}\n")
        sys.stderr.flush()


def end_process(work: Callable[[], bool]) -> NoReturn:
    """Do the work of a task, and end the process: with code 0 if it returns True, 1 if it does not, 2 for BadInput.

    Not by Python's own end: TensorFlow's threads may wait for other tasks, and abort if they return while Python ends.
    """
    code = 1
    try:
        code = 0 if work() else 1
    except (BadInput, Unsupported) as error:
        say(printable(str(error)))
        code = 2 if isinstance(error, BadInput) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def require_here(spec: TrialSpec) -> None:
    """Check that this process can train with the spec.

    Raises BadInput if the strategy needs variables of the environment that are not set, Unsupported if it cannot run.
    """
    needed = spec.process_env()
    if missing := {name: value for name, value in needed.items() if os.environ.get(name) != value}:
        settings = " ".join(f"{name}='{value}'" for name, value in missing.items())
        raise BadInput(f"strategy '{spec.strategy}' needs a process of its own environment: start it with {settings}.")
    if reason := availability.unsupported_reason(spec, resolve(spec.strategy, spec.parameters())):
        raise Unsupported(reason)


def look_up(host: str, port: int, name: Name, deadline: float) -> AddressInfo:
    """The socket address of a task. Raises BadInput if the name of its host does not resolve before the deadline.

    Some names resolve only once their task has been started, such as those of Kubernetes' pods.
    """
    is_first_try = True
    while True:
        try:
            return socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            if time.monotonic() > deadline:
                raise BadInput(f"the host of {name}, {host}, does not resolve: {error.strerror}.") from error
        if is_first_try:
            say(f"waiting for the name of the host of {name}, {host}, to resolve.")
        is_first_try = False
        time.sleep(LOOK_UP_S)


def require_addresses(addresses: Addresses, name: Name, wait_s: float) -> None:
    """Raise BadInput if a host does not resolve within the limit, or this task cannot listen on its address."""
    resolved, deadline = {}, time.monotonic() + wait_s
    for job in ("ps", "worker"):
        for index, address in enumerate(getattr(addresses, job)):
            host, _, port = address.rpartition(":")
            its_name = Name(job, index)
            resolved[its_name] = look_up(host, int(port), its_name, deadline)
    family, kind, protocol, _, place = resolved[name]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that a task has just left is free
        try:
            probe.bind(place)
            probe.listen()
        except OSError as error:
            address = addresses.of(name.job, name.index)
            raise BadInput(f"{name} cannot listen on {address}: {error.strerror}.") from error


def versions() -> dict[str, str]:
    """The versions that all tasks must have in common; that of the op library is the start of its hash."""
    library = loader.library_dir() / OPS_LIBRARY
    return {
        "tmflow": __version__,
        "tensorflow": str(tensorflow_version()),
        "ops": hashlib.sha256(library.read_bytes()).hexdigest()[:12],
    }


def listen_on_loopback_only() -> None:
    """Start this process again with the library that its server needs, unless it has it: it is loaded at the start."""
    environment = loader.loopback_only(os.environ)
    if environment[loader.PRELOAD] != os.environ.get(loader.PRELOAD):
        os.execve(sys.executable, [sys.executable, "-m", "tmflow", *sys.argv[1:]], environment)


class Member:
    """This process as a task of a cluster.

    `wait_s` is how long it waits at most for others: to come before the training, and to answer during it.
    """

    def __init__(self, addresses: Addresses, name: Name, wait_s: float, transport: str) -> None:
        require_addresses(addresses, name, wait_s)
        address = addresses.of(name.job, name.index)
        if is_loopback(address):
            listen_on_loopback_only()
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        self.addresses, self.name, self.wait_s = addresses, name, wait_s
        self._has_ended = threading.Event()
        self._is_joining = False
        server = start_server(addresses, name.job, name.index, transport)
        self.servers, self.target = {transport: server}, server.target
        self.mail = Mailbox(self.target, name)
        say(f"{name} listens on {address}.")
        if not is_loopback(address) and transport == GRPC:
            say(
                "note: TensorFlow listens on every interface of this host, and its gRPC has no authentication: whoever "
                "reaches the port can use this process."
            )
        elif not is_loopback(address) and not os.environ.get(SECRET):
            say(f"note: {SECRET} is not set: whoever reaches the port can use this process.")

    @property
    def names(self) -> list[Name]:
        """All tasks of the cluster, servers first."""
        servers = [Name("ps", index) for index in range(len(self.addresses.ps))]
        return [*servers, *(Name("worker", index) for index in range(len(self.addresses.worker)))]

    @property
    def _host(self) -> str:
        return self.addresses.of(self.name.job, self.name.index).rpartition(":")[0].strip("[]")

    def report(self, spec: TrialSpec) -> Words:
        """What this task tells the chief about itself."""
        return {
            "name": [self.name.job, self.name.index],
            "host": socket.gethostname(),
            "platform": platform_facts(),
            "versions": versions(),
            "addresses": self.addresses.model_dump(),
            "factors": spec.factors() if self.name.job == "worker" else None,
            "probe": network.answer_one_probe(self._host, 2 * self.wait_s + GRACE_S) if self.name.job == "ps" else None,
        }

    def join(self, spec: TrialSpec) -> None:
        """Report, and wait for the chief's verdict, watching the chief from its first words on; not for the chief.

        A chief that refuses ends at once, perhaps before it answers the watch, so the verdict waits for no answer.
        Raises Unsupported if a task does not come in time, and BadInput if the tasks do not fit together.
        """
        say(f"waiting for {CHIEF_WORKER}.")
        self._is_joining = True
        self._report_to_chief(spec)
        self.watch(CHIEF_WORKER, self._say_that_chief_is_up)
        verdict = self.hear(LIMIT_S)  # the watch ends this process if the chief ends
        with _SAYING:
            self._is_joining = False
        if "absent" in verdict:
            raise Unsupported(verdict["absent"])
        if "differ" in verdict:
            raise BadInput(f"{verdict['differ']}.")

    def _report_to_chief(self, spec: TrialSpec) -> None:
        """Put the report into the first server's queue, and wait until the chief has it."""
        limit_s, absent = self.wait_s, absence([CHIEF_WORKER], self.wait_s)
        try:
            self.mail.put(FIRST_SERVER, ARRIVED, self.report(spec), self.wait_s)
        except TimeoutError as error:
            raise Unsupported(absence([FIRST_SERVER], self.wait_s)) from error
        except ConnectionError:  # if the chief refuses, that server ends, perhaps before its answer has come
            limit_s, absent = GRACE_S, f"{FIRST_SERVER} ended before the training began"
        try:
            self.hear(limit_s)
        except TimeoutError as error:
            raise Unsupported(absent) from error

    def _say_that_chief_is_up(self) -> None:
        with _SAYING:
            if self._is_joining:  # the verdict is the last word
                say(f"{CHIEF_WORKER} is up.")

    def hear(self, limit_s: float | None) -> Words:
        """The chief's next words to this task."""
        return self.mail.take(self.name, WORDS, limit_s)

    def tell(self, name: Name, words: Words) -> None:
        """Say words to a task that has arrived; for the chief. A task that has ended since then does not hear them."""
        with suppress(TimeoutError, ConnectionError):
            self.mail.put(name, WORDS, words, self.wait_s)

    def end(self) -> None:
        """Need the other tasks no more."""
        self._has_ended.set()

    def watch(self, name: Name, on_first_answer: Callable[[], None]) -> None:
        """End this process if that of another task ends, or answers no more, before this task's work is done.

        on_first_answer: called when the other task answers for the first time; from then on its end is noticed at once.
        """

        def wait() -> None:
            end = self.mail.wait_for_end(name, self.wait_s, on_first_answer)
            if not self._has_ended.wait(GRACE_S if self._is_joining else LAST_WORD_S):
                say(f"{end}.")
                os._exit(1)  # TensorFlow may wait for that task in any thread of this process

        threading.Thread(target=wait, daemon=True).start()


def absence(names: list[Name], wait_s: float) -> str:
    """The sentence about tasks that did not come."""
    return f"{', '.join(map(str, names))} did not come within {wait_s:g} s"


def serve(member: Member, spec: TrialSpec) -> bool:
    """Hold variables until the chief says that the training is done, and return True. Raises as `Member.join`."""
    member.join(spec)
    say(f"all tasks are up; {member.name} serves.")
    member.hear(None)
    member.end()
    say("done.")
    return True


def trials(spec: TrialSpec) -> Iterator[TrialSpec]:
    """The trials of a worker: a short one that is discarded, and that of the spec."""
    yield warm_up_spec(spec, spec.threads, spec.batch, WARM_UP_STEPS * spec.threads, EVALUATED_IN_WARM_UP)
    yield spec


def follow(member: Member, spec: TrialSpec) -> bool:
    """Train as a worker that is not the chief, and return True.

    Raises as `Member.join`, Unsupported if a task that it needs ends, and what the training raises.
    """
    import tensorflow as tf

    member.join(spec)
    trainer = Trainer(member.name.job, member.name.index, servers=member.servers)
    say("all tasks are up; training.")
    try:
        for trial in trials(spec):
            trainer.train(trial.factors(), spec.seed, CONTAINER, LIMIT_S)
            member.mail.put(CHIEF_WORKER, TRAINED, {}, None)
            member.hear(None)
    except (ConnectionError, tf.errors.OpError) as error:
        # If all tasks end because the chief has, the watch says so after LAST_WORD_S, and ends this process.
        time.sleep(2 * LAST_WORD_S)
        raise Unsupported(f"the training broke off: {' '.join(str(error).split())[:200]}") from error
    member.end()
    say("done.")
    return True
