"""A Slurm of one node, this machine, for tests: Debian's slurm-wlm and munge, with all files in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
PROCESSORS = 4  # that the node says it has, so that a server and some workers fit

CONFIGURATION = """\
ClusterName=one
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs={processors} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES State=UP
"""


def why_not() -> str | None:
    """Why no Slurm can be started here; None if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} of Slurm and munge are not installed (Debian: slurm-wlm, munge)"
    return None if os.geteuid() == 0 else "Slurm's daemons start tasks only as root"


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands reach the Slurm in `folder`; its daemons end afterwards."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key, configuration = folder / "munge.key", folder / "slurm.conf"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    configuration.write_text(CONFIGURATION.format(folder=folder, ports=ports, processors=PROCESSORS))
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    files = [f"--{name}-file={folder / f'munge.{name}'}" for name in ("key", "pid", "log", "seed")]
    commands = [
        ["munged", "--foreground", "--force", f"--socket={folder / 'munge.socket'}", *files],
        ["slurmctld", "-D", "-f", str(configuration)],
        ["slurmd", "-D", "-f", str(configuration), "-N", "localhost"],
    ]
    with ExitStack() as held:
        for command in commands:
            log = held.enter_context((folder / f"{command[0]}.log").open("w"))
            held.callback(_end, subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        # It returns once the node has registered, because srun waits until a node can run its task.
        probe = ["srun", "--immediate=60", "true"]
        done = subprocess.run(probe, env=environment, capture_output=True, text=True, check=False, timeout=90)
        logs = {path.name: path.read_text()[-2000:] for path in folder.glob("*.log")}
        assert done.returncode == 0, (done.stderr, logs)
        yield environment


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
