"""Pages from templates, including the method pages. All text is escaped and every link is relative."""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tmflow.base.files import write_text
from tmflow.base.text import interval, span
from tmflow.reports import docs_index
from tmflow.reports.docs_index import VOCABULARY


class Pages:
    """Writes the pages of a site into a folder; `about` is available to every template."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self._templates = Environment(
            loader=PackageLoader("tmflow.reports.site"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(about=about, interval=interval, span=span)
        self._templates.filters["fragment"] = lambda text: quote(str(text), safe="")

    def write(self, path: str, template: str | None = None, **definitions: Any) -> None:
        """Write the page at `path` in the site's folder; the template defaults to `path`."""
        root = "../" * path.count("/")
        text = self._templates.get_template(template or path).render(root=root, here=path, **definitions)
        write_text(self.folder / path, text)


class SiteLinks:
    """Relative paths for the links of a page of the docs; linked files are added to `used`."""

    def __init__(self, page: str, used: set[str]) -> None:
        self._folder, self._used = posixpath.dirname(page), used

    def page(self, name: str, anchor: str) -> str:
        return self._from_here(f"{name}.html") + (f"#{anchor}" if anchor else "")

    def file(self, path: str) -> str:
        self._used.add(path)
        return self._from_here(path)

    def _from_here(self, path: str) -> str:
        return posixpath.relpath(path, self._folder or ".")


def write(pages: Pages) -> None:
    """Write the pages of the docs under method/, the files that they link to, the glossary and an index."""
    docs = docs_index.pages()
    used: set[str] = set()

    def html(text: str, page: str) -> Markup:
        # The docs belong to the project, and HTML in them is escaped.
        return Markup(docs_index.html(docs_index.resolve_links(text, page, SiteLinks(page, used), docs)))

    for name, page in docs.items():
        sections = [(section, html(section.text, name), title(section.title)) for section in page.sections]
        pages.write(
            f"method/{name}.html",
            "handbook.html",
            page=page,
            sections=sections,
            title=docs_index.plain_text(page.title),
        )
    terms = docs_index.glossary(docs[VOCABULARY])
    context = [(term, [html(definition, VOCABULARY) for definition in term.definitions]) for term in terms]
    pages.write("method/glossary.html", "glossary.html", terms=context, vocabulary=VOCABULARY)
    pages.write(
        "method/index.html",
        "method.html",
        groups=docs_index.group_pages(docs),
        terms=terms,
        plain=docs_index.plain_text,
    )
    for path in used:
        to = pages.folder / "method" / path
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(docs_index.docs_dir() / path, to)


def title(text: str) -> Markup:
    """Render the Markdown of a heading as HTML without the surrounding paragraph."""
    return Markup(docs_index.html(text).strip().removeprefix("<p>").removesuffix("</p>"))
