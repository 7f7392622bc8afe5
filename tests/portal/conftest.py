"""The databases, and the published site, that the portal's tests look at: each made once, for reading only."""

from __future__ import annotations

import pytest
from claimed import claimed_database
from published import Published, published
from seed import seed_database
from sqlalchemy import URL


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database with something of everything."""
    return seed_database(tmp_path_factory.mktemp("seeded"))


@pytest.fixture(scope="session")
def claimed(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database with runs of figures of the study and of claims."""
    return claimed_database(tmp_path_factory.mktemp("claimed"))


@pytest.fixture(scope="session")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """What goes beyond the study, and little else."""
    folder = tmp_path_factory.mktemp("beyond")
    return seed_database(folder, rounds=2, strategies=("tf_lock",), transactions=False, beyond=True)


@pytest.fixture(scope="session")
def without_result(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Runs that could not run here, and no others."""
    return seed_database(tmp_path_factory.mktemp("without"), strategies=("htm",), transactions=False)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A published site of hostile texts."""
    return published(tmp_path_factory.mktemp("published"))
