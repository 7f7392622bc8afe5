"""Servers of TensorFlow in other processes, for tests of transports: `python -m tests.support.server_processes ...`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tmflow.training.cluster.addresses import Addresses, Job
from tmflow.training.cluster.task import start_server


class ServerProcess:
    """A server of one task in a process of its own, until the process ends or is killed."""

    def __init__(self, transport: str, addresses: Addresses, job: Job, index: int, **environment: str) -> None:
        command = [sys.executable, "-m", __name__, transport, addresses.model_dump_json(), job, str(index)]
        variables: Mapping[str, str] = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, **environment}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=variables)

    def target(self) -> str:
        """Where sessions reach it, once it listens."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        """End the process by the end of its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


@contextmanager
def servers(transport: str, addresses: Addresses, **environment: str) -> Iterator[list[ServerProcess]]:
    """All tasks of a cluster as processes, servers first."""
    with ExitStack() as stack:
        processes = [
            ServerProcess(transport, addresses, job, index, **environment)
            for job in ("ps", "worker")
            for index in range(len(getattr(addresses, job)))
        ]
        for process in processes:
            stack.callback(process.end)
        yield processes


def main(transport: str, addresses: str, job: Job, index: str) -> None:
    """Serve until the input ends."""
    server = start_server(Addresses.model_validate_json(addresses), job, int(index), transport)
    print(server.target, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]  # the words of a command
