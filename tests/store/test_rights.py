"""The commands for users with limited permissions on a database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, insert

from tests.support.sample_runs import sample_runs
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.store import engine, models, queries, schema
from tmflow.store.ingest import ingest

# Root can write any file unless that capability is removed.
WITHOUT_ROOT_S_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()

SCRIPT = """
import sys
from pathlib import Path
from tmflow.base.errors import BadInput
from tmflow.store import engine, queries, schema
from tmflow.store.ingest import ingest
url, file = engine.sqlite_url(Path(sys.argv[1])), Path(sys.argv[2])
for expression in sys.argv[3:]:
    try:
        print(eval(expression))
    except BadInput as error:
        print(error)
"""
COUNT = "len(queries.runs(engine.open_reader(url)))"


def say(path: Path, *expressions: str, file: Path = Path()) -> list[str]:
    """The outcome of each query, or its error, in a process with only the permissions of the files."""
    command = [*WITHOUT_ROOT_S_RIGHTS, sys.executable, "-c", SCRIPT, path, file, *expressions]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two run files of nine runs each."""
    for number in (1, 2):
        record.write(tmp_path / f"{number}.jsonl", sample_runs(rounds=1, campaign=f"campaign-{number}"))
    return [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]


@pytest.fixture
def folder(sqlite: URL, files: list[Path]) -> Iterator[Path]:
    """The folder of a database of nine runs; its permissions are restored at the end."""
    ingest(sqlite, files[:1])
    folder = engine.sqlite_path(sqlite).parent
    yield folder
    folder.chmod(0o755)


def test_a_folder_one_may_not_write_can_be_read(sqlite: URL, folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["study.db"], "the last connection takes the log away"
    folder.chmod(0o555)
    assert say(folder / "study.db", COUNT, "schema.check(url).ok") == ["9", "True"]
    assert [path.name for path in folder.iterdir()] == ["study.db"]


def test_files_that_a_reader_left_do_not_disturb_one_without_rights(sqlite: URL, folder: Path) -> None:
    assert len(queries.runs(engine.open_reader(sqlite))) == 9
    folder.chmod(0o555)
    assert say(folder / "study.db", COUNT) == ["9"]


def test_a_reader_who_is_not_the_owner_leaves_nothing(
    sqlite: URL, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert len(queries.runs(engine.open_reader(sqlite))) == 9
    assert [path.name for path in folder.iterdir()] == ["study.db"]


def test_a_folder_one_may_not_write_can_be_read_while_another_writes(sqlite: URL, folder: Path) -> None:
    new = {"sha256": "f" * 64, "name": "x", "ingested_at_utc": "2026-01-01T00:00:00Z", "n_runs": 0}
    revision = "queries.revision(engine.open_reader(url))"
    before = queries.revision(engine.open_reader(sqlite))
    with engine.open_writer(sqlite).connect() as writing:
        writing.execute(insert(models.RunFile), new)
        folder.chmod(0o555)
        assert say(folder / "study.db", revision) == [before]
        writing.commit()
        assert say(folder / "study.db", revision) == [queries.revision(engine.open_reader(sqlite))] != [before]


@pytest.mark.parametrize("what", ["study.db", "."])
def test_writing_without_the_right_to(sqlite: URL, folder: Path, files: list[Path], what: str) -> None:
    (folder / what).chmod(0o555)
    attempts = ("ingest(url, [file])", "schema.require_usable(url)", "schema.upgrade(url)")
    said = say(folder / "study.db", *attempts, file=files[1])
    assert len(said) == 3
    assert all(line.startswith(f"{engine.shown(sqlite)} is read-only; to write, this user needs") for line in said)
    assert len(queries.runs(engine.open_reader(sqlite))) == 9


def test_a_file_one_may_not_read(sqlite: URL, folder: Path) -> None:
    (folder / "study.db").chmod(0)
    (said,) = say(folder / "study.db", COUNT)
    assert "cannot be opened: it is not a file, or this user may not read it" in said


def test_a_folder_one_may_not_enter(sqlite: URL, folder: Path) -> None:
    folder.chmod(0)
    assert set(say(folder / "study.db", COUNT, "schema.exists(url)")) == {
        f"{engine.shown(sqlite)} cannot be opened: Permission denied."
    }


def test_a_role_without_rights(postgresql: URL, files: list[Path]) -> None:
    ingest(postgresql, files[:1])
    admin = create_engine(postgresql, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql("DROP ROLE IF EXISTS guest")
        connection.exec_driver_sql("CREATE ROLE guest LOGIN")
    admin.dispose()
    for attempt in (engine.open_reader, schema.check, lambda url: ingest(url, files[1:])):
        with pytest.raises(BadInput, match="does not give this user the necessary rights"):
            attempt(postgresql.set(username="guest"))


def test_a_database_that_is_read_only(postgresql: URL, files: list[Path]) -> None:
    ingest(postgresql, files[:1])
    admin = create_engine(postgresql, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {postgresql.database} SET default_transaction_read_only = on")
    admin.dispose()
    with pytest.raises(BadInput, match="is read-only; to write, this user needs the right"):
        ingest(postgresql, files[1:])
    assert len(queries.runs(engine.open_reader(postgresql))) == 9


def test_a_database_that_goes_between_two_questions_is_one_sentence(sqlite: URL, folder: Path) -> None:
    reader = engine.open_reader(sqlite)
    engine.sqlite_path(sqlite).rename(folder / "elsewhere.db")
    with pytest.raises(BadInput, match="cannot be opened"):
        queries.counts(reader)
