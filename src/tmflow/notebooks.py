"""Notebooks executed without anybody at the keyboard: what they show is what the database holds now."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from tmflow.files import write_text

TIMEOUT_S = 600  # of a cell


def execute(source: Path, output: Path) -> None:
    """Run all cells of a notebook in this interpreter's kernel, from its own folder; write it with its output.

    Raises nbclient's CellExecutionError, which shows the cell, where one fails; nothing is written then.
    """
    notebook = nbformat.read(source, as_version=4)
    with TemporaryDirectory(prefix="tmflow-") as sockets:
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(source.parent)}},
            config=_without_ports(Path(sockets)),
        )
        client.execute()
    write_text(output, nbformat.writes(notebook) + "\n")


def _without_ports(sockets: Path) -> Config:
    """A kernel that is talked to through files in a folder.

    Ports are chosen some time before the kernel takes them: of two that start at once, one may find its port taken.
    """
    return Config({"KernelManager": {"transport": "ipc", "connection_file": str(sockets / "kernel.json")}})
