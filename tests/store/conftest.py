"""Databases for the tests: SQLite files, and databases of a PostgreSQL server that only these tests use."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine

from tmflow.store import engine

HOMES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[URL]:
    """A server on a temporary socket, without a network port, for the session."""
    if not HOMES:
        pytest.fail("these tests need a PostgreSQL server: install the package `postgresql` (initdb, pg_ctl, postgres)")
    folder = Path(tempfile.mkdtemp(prefix="tmflow-pg-"))
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name  # the server refuses to run as root
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    data, bin_ = folder / "data", HOMES[-1]

    def call(program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [bin_ / program, *arguments],
            user=user if os.geteuid() == 0 else None,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a pipe would stay open as long as the server runs
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=120,
        )
        log = (folder / "log").read_text() if (folder / "log").exists() else ""
        assert done.returncode == 0, f"{program} failed: {log}"

    call("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=50"
    call("pg_ctl", "start", "-w", "-D", data, "-l", folder / "log", "-o", options)
    try:
        yield engine.parse(f"postgresql://postgres@/postgres?host={folder}")
    finally:
        call("pg_ctl", "stop", "-D", data, "-m", "immediate")
        shutil.rmtree(folder)


@pytest.fixture
def postgresql(postgresql_server: URL) -> Iterator[URL]:
    """An empty database of the server."""
    name = f"t{uuid.uuid4().hex}"
    admin = create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE template0")
    yield postgresql_server.set(database=name)
    with admin.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    admin.dispose()


@pytest.fixture
def sqlite(tmp_path: Path) -> URL:
    """A SQLite file that does not exist yet."""
    return engine.sqlite_url(tmp_path / "results" / "study.db")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> URL:
    """An empty database of each kind."""
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]
