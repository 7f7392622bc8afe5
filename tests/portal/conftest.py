"""The databases and the published site of the portal's tests: each created once, and only read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from claimed import claimed_database
from published import Published, published
from seed import seed_database
from sqlalchemy import URL
from streamlit.components.v2 import manifest_scanner


@pytest.fixture(scope="session", autouse=True)
def installed_components() -> Iterator[None]:
    """Streamlit reads the metadata of all installed packages once per process, and not for each page that is tested.

    It looks for components in them, of which there are none, and would take up to 85 % of the time of a page's test.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database with every kind of content."""
    return seed_database(tmp_path_factory.mktemp("seeded"))


@pytest.fixture(scope="session")
def claimed(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """A database with runs for figures of the study and claims."""
    return claimed_database(tmp_path_factory.mktemp("claimed"))


@pytest.fixture(scope="session")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Mostly experiments beyond the study."""
    folder = tmp_path_factory.mktemp("beyond")
    return seed_database(folder, rounds=2, strategies=("tf_lock",), transactions=False, beyond=True)


@pytest.fixture(scope="session")
def without_result(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """Only runs that could not run here."""
    return seed_database(tmp_path_factory.mktemp("without"), strategies=("htm",), transactions=False)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A published site with hostile texts."""
    return published(tmp_path_factory.mktemp("published"))
