"""Every notebook runs from top to bottom on a database of runs, and is committed without its output."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT
from tests.sample_runs import EMULATED, SOFTWARE_TM, sample_runs
from tmflow.runner import runfile
from tmflow.store import engine
from tmflow.store.ingest import ingest

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runfile.write(tmp_path / "runs.jsonl", sample_runs(strategies=("tf_lock", "tf_nolock", SOFTWARE_TM, EMULATED)))
    url = engine.sqlite_url(tmp_path / "study.db")
    ingest(url, [tmp_path / "runs.jsonl"])
    monkeypatch.setenv("TMFLOW_DB_URL", url.render_as_string())
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in code)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert all(cell.outputs for cell in code)
