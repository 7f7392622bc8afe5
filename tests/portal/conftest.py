"""The database that the portal's tests look at."""

from __future__ import annotations

import pytest
from seed import seed_database
from sqlalchemy import URL


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database with something of everything, for reading only."""
    return seed_database(tmp_path_factory.mktemp("seeded"))
