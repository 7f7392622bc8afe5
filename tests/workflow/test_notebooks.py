"""Every notebook runs from start to end, with much and with little data, and is committed without its output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.conftest import ROOT
from tests.support.sample_runs import EMULATED, FULL, SOFTWARE_TM, sample_runs
from tmflow.runfile import record
from tmflow.spec.strategies import parameters_of
from tmflow.store import engine
from tmflow.store.ingest import ingest
from tmflow.workflow.notebooks import execute

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LOCK = {"strategy": "lock", **parameters_of("lock")}
HTM = {"strategy": "htm", **parameters_of("htm"), "provider": "rtm"}
BUILDS = [{"kernel": kernel, "optimisation": level} for kernel in ("plain", "eigen") for level in ("O0", "O3")]


@pytest.fixture(scope="module")
def much(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with data for each notebook."""
    variants = [variant | build for variant in (LOCK, HTM | {"budget": 0}, HTM) for build in BUILDS]
    software = [SOFTWARE_TM | {"instrumentation": of} for of in ("all", "shared")]
    return _stored(
        tmp_path_factory.mktemp("much"),
        sample_runs(("fig-4.1",), ("tf_lock", "tf_nolock", HTM, EMULATED)),
        sample_runs(("autopsy-htm",), variants, (1, 2)),
        sample_runs(("autopsy-stm",), [LOCK, *software], (1, 2)),
        sample_runs(("consistency",), ("lock", "nolock"), **FULL),
        sample_runs(("native",), ("lock", "nolock"), driver="native"),
    )


def _stored(folder: Path, *files: Any) -> str:
    url = engine.sqlite_url(folder / "study.db")
    for number, runs in enumerate(files):
        record.write(folder / f"{number}.jsonl", runs)
    ingest(url, sorted(folder.glob("*.jsonl")))
    return url.render_as_string()


def code_of(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_there_are_the_four() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["autopsy", "lost_updates", "study_figures", "your_own_run"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path: Path, much: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMFLOW_DB_URL", much)
    assert not any(cell.outputs for cell in code_of(path))
    execute(path, tmp_path / path.name)
    for cell in code_of(tmp_path / path.name):
        assert cell.outputs, cell.source
        assert not any(output.get("name") == "stderr" for output in cell.outputs), cell.outputs
    assert "image/svg+xml" in (tmp_path / path.name).read_text() or path.stem == "your_own_run"


def test_a_kernel_takes_no_port(tmp_path: Path) -> None:
    """Two notebooks of a study had chosen the same port when they started at the same time."""
    asks = "from ipykernel.connect import get_connection_info as info; print(info(unpack=True)['transport'])"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(asks)]), tmp_path / "asks.ipynb")
    execute(tmp_path / "asks.ipynb", tmp_path / "executed.ipynb")
    (cell,) = code_of(tmp_path / "executed.ipynb")
    assert [output["text"] for output in cell.outputs] == ["ipc\n"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_says_what_is_missing(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a single run by hand in the database; without a kernel, which is slow to start."""
    runs = sample_runs(("adhoc",), ("nolock",), (1,), 1, scale="adhoc", curve_points=0)
    monkeypatch.setenv("TMFLOW_DB_URL", _stored(tmp_path, runs))
    monkeypatch.delenv("TMFLOW_RUN", raising=False)
    shown: list[Any] = []
    names: dict[str, Any] = {"display": shown.append}
    for cell in code_of(path):
        exec(cell.source, names)
