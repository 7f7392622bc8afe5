"""Hooks of MkDocs for the site of `make docs`: pages that lie outside docs/ are added, and links fit the site.

A link to a file outside docs/ is shown as the path of that file, as the portal shows it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tmflow.base.paths import project_root
from tmflow.reports import docs_index

# Pages that lie outside docs/, by their names in the repository.
ELSEWHERE = {"README": "index", "config/README": "snakemake", "CONTRIBUTING": "contributing", "CHANGELOG": "changelog"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside docs/."""
    for name, page in ELSEWHERE.items():
        text = (project_root() / f"{name}.md").read_text(encoding="utf-8")
        files.append(File.generated(config, f"{page}.md", content=_as_if_in_docs(text, posixpath.dirname(name))))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to the pages of the site; a file that the site does not have is named by its path."""
    pages = {posixpath.splitext(file.src_uri)[0]: file.src_uri for file in files.documentation_pages()}
    pages |= {f"../{name}": f"{generated}.md" for name, generated in ELSEWHERE.items()}
    return docs_index.resolve_links(
        markdown, posixpath.splitext(page.file.src_uri)[0], _Site(page, pages, files), pages
    )


class _Site:
    """Where pages and files are, as links relative to a page of the site: `docs_index.LinkTargets`."""

    def __init__(self, page: Page, pages: Mapping[str, str], files: Files) -> None:
        self._folder, self._pages, self._files = posixpath.dirname(page.file.src_uri), pages, files

    def page(self, name: str, anchor: str) -> str:
        return self._relative(self._pages[name]) + (f"#{anchor}" if anchor else "")

    def file(self, path: str) -> str | None:
        """A file that does not exist keeps its link, so that MkDocs reports it."""
        on_site = self._files.get_file_from_path(path) or not (docs_index.docs_dir() / path).exists()
        return self._relative(path) if on_site else None

    def _relative(self, path: str) -> str:
        return posixpath.relpath(path, self._folder or ".")


def _as_if_in_docs(text: str, folder: str) -> str:
    """Markdown of a file in a folder of the repository with its relative links as they would be in docs/."""

    def moved(link: re.Match[str]) -> str:
        target = link[1]
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        return f"]({posixpath.relpath(posixpath.join(folder, target), 'docs')})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)
