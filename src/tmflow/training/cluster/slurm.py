"""The addresses of a cluster's tasks from a Slurm allocation: each task of a job step is a server or a worker.

The first tasks of the step are the servers. Slurm places tasks in blocks: as many on the first node as it says for that
node, then on the next. Each task listens on a port of its own, so that several fit on a node.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from tmflow.base.errors import BadInput
from tmflow.training.cluster.addresses import Addresses
from tmflow.training.cluster.mailbox import Name

FIRST_PORT, PORTS = 20_000, 11_000  # below those that Linux gives to outgoing connections


def from_slurm(environment: Mapping[str, str], servers: int) -> tuple[Addresses, Name]:
    """All addresses, and the name of the task in this environment. Raises BadInput outside of a step of Slurm."""
    tasks, rank = _number(environment, "SLURM_NTASKS"), _number(environment, "SLURM_PROCID")
    if tasks <= servers:
        raise BadInput(
            f"Slurm started {tasks} tasks, and {servers} of them are servers: no worker is left, so give srun a larger "
            "--ntasks."
        )
    if not rank < tasks:
        raise BadInput(f"SLURM_PROCID is {rank}, but should be below SLURM_NTASKS, which is {tasks}.")
    nodes = expand(_first_of(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"))
    counts = tasks_per_node(_first_of(environment, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    places = [node for node, count in zip(nodes, counts, strict=False) for _ in range(count)]
    if len(nodes) != len(counts) or len(places) != tasks:
        raise BadInput(
            f"Slurm's variables contradict each other: {tasks} tasks, nodes {nodes}, tasks per node {counts}."
        )
    if (here := environment.get("SLURMD_NODENAME", places[rank])) != places[rank]:
        raise BadInput(f"task {rank} runs on {here}, not on {places[rank]}: start srun with --distribution=block.")
    first = FIRST_PORT + _number(environment, "SLURM_JOB_ID") * tasks % PORTS
    addresses = [f"{place}:{first + number}" for number, place in enumerate(places)]
    name = Name("ps", rank) if rank < servers else Name("worker", rank - servers)
    return Addresses(ps=addresses[:servers], worker=addresses[servers:]), name


def expand(nodes: str) -> list[str]:
    """The names of nodes from Slurm's short form, as `node[01-03,7],other`; by `scontrol` where it is installed."""
    if scontrol := shutil.which("scontrol"):
        command = [scontrol, "show", "hostnames", nodes]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0 or not done.stdout.split():
            raise BadInput(f"scontrol does not know the nodes '{nodes}': {' '.join(done.stderr.split())}.")
        return done.stdout.split()
    return expand_here(nodes)


def expand_here(nodes: str) -> list[str]:
    """The same without `scontrol`. Raises BadInput for a form with anything after the brackets."""
    names = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?[^,]*", nodes):
        match = re.fullmatch(r"([^\[\]]*)(?:\[([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\])?", part)
        if match is None:
            raise BadInput(f"the nodes '{nodes}' are in no form that is read here without scontrol.")
        before, ranges = match.groups()
        names += [part] if ranges is None else [f"{before}{number}" for number in _numbers(ranges)]
    return names


def _numbers(ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{number:0{len(first)}}"


def tasks_per_node(text: str) -> list[int]:
    """The number of tasks of each node from Slurm's short form, as `2(x3),1`."""
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", part)
        if match is None:
            raise BadInput(f"Slurm's tasks per node are '{text}', which is in no form that is known here.")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _first_of(environment: Mapping[str, str], *variables: str) -> str:
    """The value of the first of these variables that is set: those of a step come before those of its job."""
    for variable in variables:
        if environment.get(variable):
            return environment[variable]
    raise BadInput(f"{variables[-1]} is not set: --from-slurm belongs into a job of Slurm, `srun tmflow cluster task`.")


def _number(environment: Mapping[str, str], variable: str) -> int:
    text = _first_of(environment, variable)
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise BadInput(f"{variable} is '{text}', but should be a number.")
    return int(text)
