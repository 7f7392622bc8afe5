"""Batch execution of notebooks, so that they show the current contents of the database."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from tmflow.base.errors import BadInput, shortened
from tmflow.base.files import require_name, write_text

TIMEOUT_S = 600  # for each cell


def execute(source: Path, output: Path) -> None:
    """Run all cells of a notebook with this interpreter, in the notebook's folder; write it with its output.

    Raises BadInput for a source that is not a notebook, and nbclient's CellExecutionError, which shows the cell, if a
    cell fails; then nothing is written.
    """
    try:
        notebook = nbformat.reads(source.read_text(encoding="utf-8"), as_version=4)
    except OSError as error:
        raise BadInput(f"notebook {shortened(str(source))} cannot be read: {error.strerror}.") from error
    except (ValueError, nbformat.validator.NotebookValidationError) as error:
        raise BadInput(f"{source} is not a Jupyter notebook: {str(error).splitlines()[0]}.") from error
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
    """Configure a kernel that communicates through sockets in a folder.

    TCP ports are chosen before the kernel opens them, so two kernels that start together may choose the same port.
    """
    return Config({"KernelManager": {"transport": "ipc", "connection_file": str(sockets / "kernel.json")}})
