"""Notebooks executed without anybody at the keyboard: what they show is what the database holds now."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from tmflow.base.errors import BadInput
from tmflow.base.files import require_name, shortened, write_text

TIMEOUT_S = 600  # of a cell


def execute(source: Path, output: Path) -> None:
    """Run all cells of a notebook in this interpreter's kernel, from its own folder; write it with its output.

    Raises BadInput for a source that is no notebook, and nbclient's CellExecutionError, which shows the cell, where one
    fails; nothing is written then.
    """
    try:
        notebook = nbformat.reads(source.read_text(encoding="utf-8"), as_version=4)
    except OSError as error:
        raise BadInput(f"notebook {shortened(str(source))} cannot be read: {error.strerror}.") from error
    except (ValueError, nbformat.validator.NotebookValidationError) as error:
        raise BadInput(f"{source} is no Jupyter notebook: {str(error).splitlines()[0]}.") from error
    require_name(output)
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
