"""The site of `make docs` has every page, its links and anchors work, and it renders the Markdown as intended."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tmflow.reports import docs_index

DOCS = docs_index.pages()
ELSEWHERE = ("index", "snakemake", "contributing", "changelog")
BLOCKS = ("h1", "h2", "h3", "h4", "li", "table", "tr", "pre", "img")


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does: --quiet would hide the faults from --strict."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site]
    variables = environment(TMFLOW_ROOT=root, NO_MKDOCS_2_WARNING="1")
    return subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def article(site: Path, name: str) -> str:
    """The HTML of a page of the site without navigation."""
    return (site / f"{name}.html").read_text().partition("<article")[2].partition("</article>")[0]


def test_every_page_is_found_by_the_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    found = {entry["location"].partition("#")[0] for entry in index}
    assert {f"{name}.html" for name in (*DOCS, *ELSEWHERE)} == found


@pytest.mark.parametrize("name", DOCS)
def test_a_page_has_the_blocks_that_its_markdown_has(site: Path, name: str) -> None:
    """The site's parser requires lists and code in lists to be indented by four; GitHub and the portal do not."""
    markdown = docs_index.html((docs_index.docs_dir() / f"{name}.md").read_text())
    shown, meant = (Counter(re.findall(rf"<({'|'.join(BLOCKS)})\b", html)) for html in (article(site, name), markdown))
    assert shown == meant


@pytest.mark.parametrize("name", DOCS)
def test_headings_have_the_anchors_of_the_portal(site: Path, name: str) -> None:
    assert {section.anchor for section in DOCS[name].sections} <= set(re.findall(r'id="([^"]+)"', article(site, name)))


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "*/README.md", ".github/**/*.md"])
def test_links_of_other_pages_of_the_repository_lead_somewhere(path: str) -> None:
    """test_handbook.py tests the links of the pages of docs/."""
    pages = list(ROOT.glob(path))
    assert pages
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if not re.match(r"[a-z]+:|#", target):
                assert (page.parent / target.partition("#")[0]).exists(), f"{page}: {target}"


def test_files_of_the_repository_are_named_by_their_paths(site: Path) -> None:
    assert "<code>portal/hosting/nginx.conf</code>" in article(site, "hosting")
    assert 'href="portal.html#figures-and-claims"' in article(site, "index")
    assert 'href="experiments.html"' in article(site, "snakemake")


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|iframe)[^>]*src="([^"]+)"|<link[^>]*href="([^"]+)"')
    for page in site.rglob("*.html"):
        addresses = [src or href for src, href in loaded.findall(page.read_text())]
        assert addresses
        assert not [address for address in addresses if re.match(r"([a-z]+:)?//", address)]


def test_a_page_that_nothing_leads_to_and_links_that_lead_nowhere_fail(tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy2(ROOT / name, tmp_path)
    for name in ("config", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "forgotten.md").write_text("# Forgotten\n")
    with (tmp_path / "docs" / "runs.md").open("a") as page:
        page.write("\n[a](missing.md) [b](portal.md#missing) [c](#absent)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    reports = re.split(r"^(?=[A-Z]+ +- )", done.stderr, flags=re.MULTILINE)
    warnings = [report for report in reports if report.startswith("WARNING")]
    for fault in ("forgotten.md", "'missing'", "portal.md#missing", "#absent"):
        assert any(fault in warning for warning in warnings), done.stderr
