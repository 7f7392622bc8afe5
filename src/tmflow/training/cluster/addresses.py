"""The addresses of a cluster's tasks: a file that names a host and port for each server and worker.

    ps: [host-a:2222]
    worker: [host-b:2222, host-c:2222]

`ps` is TensorFlow's name of the job of the parameter servers.
"""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tmflow.base.documents import document, read_yaml
from tmflow.base.errors import BadInput

Job = Literal["ps", "worker"]
LOOPBACK = "127.0.0.1"
MOST_PORT = 65_535


def _address(text: str) -> str:
    """A host and port. Raises ValueError if it is none."""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]/]+):([0-9]{1,5})", text)
    if match is None or not 0 < int(match[2]) <= MOST_PORT:
        raise ValueError(f"'{text}' is no address: write host:port, with a port from 1 to {MOST_PORT}")
    return text


Address = Annotated[str, AfterValidator(_address)]


class Addresses(BaseModel):
    """The address of every task, by job and index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ps: list[Address] = Field(min_length=1, max_length=64)
    worker: list[Address] = Field(min_length=1, max_length=1024)

    @model_validator(mode="after")
    def _every_task_has_its_own(self) -> Self:
        seen: dict[str, str] = {}
        for job in ("ps", "worker"):
            for index, address in enumerate(getattr(self, job)):
                if address in seen:
                    raise ValueError(f"{job} {index} has the address of {seen[address]}, {address}")
                seen[address] = f"{job} {index}"
        return self

    def of(self, job: Job, index: int) -> str:
        """The address of a task. Raises BadInput if there is no such task."""
        addresses: list[str] = getattr(self, job)
        if not 0 <= index < len(addresses):
            raise BadInput(f"the cluster has no {job} {index}: its indices are 0 to {len(addresses) - 1}.")
        return addresses[index]

    def first_workers(self, number: int) -> Addresses:
        """The same servers with the first workers only."""
        return self.model_copy(update={"worker": self.worker[:number]})


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address, by its text."""
    host = address.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.")


def load_addresses(path: Path) -> Addresses:
    """Read the addresses of a cluster. Raises BadInput if the file has faults."""
    return document(Addresses, read_yaml(path), path.name)


def on_this_machine(servers: int, workers: int) -> Addresses:
    """Addresses of free ports on the loopback interface, each for one task.

    Another program could take a port before its task listens on it; the task then reports that.
    """
    with ExitStack() as held:
        ports = []
        for _ in range(servers + workers):
            probe = held.enter_context(socket.socket())
            probe.bind((LOOPBACK, 0))
            ports.append(f"{LOOPBACK}:{probe.getsockname()[1]}")
    return Addresses(ps=ports[:servers], worker=ports[servers:])
