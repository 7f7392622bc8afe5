"""The pages of a site: written from templates, with the pages of the docs among them. All text is escaped."""

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
from tmflow.charts import captions
from tmflow.charts.captions import Titles
from tmflow.claims.render import css_class
from tmflow.reports import docs_index
from tmflow.reports.docs_index import VOCABULARY


class Pages:
    """Writes the pages of a site into a folder; `about` is available to every template.

    titles: those of experiments by id, for the filter `titled`.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], titles: Titles) -> None:
        self.folder = folder
        self._templates = Environment(
            loader=PackageLoader("tmflow.reports.site"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(
            about=about, interval=interval, span=span, titles=captions.TITLES, css_class=css_class
        )
        self._templates.filters["fragment"] = lambda text: quote(str(text), safe="")
        self._templates.filters["titled"] = lambda name: titles.get(name, name)

    def write(self, path: str, template: str | None = None, **definitions: Any) -> None:
        """Write the page at `path` in the site's folder; the template defaults to `path`."""
        root = "../" * path.count("/")
        text = self._templates.get_template(template or path).render(root=root, here=path, **definitions)
        write_text(self.folder / path, text)


class SiteLinks:
    """Relative paths for the links of a page of the docs; linked files are added to `used`."""

    def __init__(self, page: str, used: set[str]) -> None:
        self._folder, self._used = posixpath.dirname(page) or ".", used

    def page(self, name: str, anchor: str) -> str:
        return posixpath.relpath(f"{name}.html", self._folder) + (f"#{anchor}" if anchor else "")

    def file(self, path: str) -> str:
        self._used.add(path)
        return posixpath.relpath(path, self._folder)


def write_docs(pages: Pages) -> None:
    """Write the pages of the docs under method/, the files that they link to, the glossary and an index."""
    docs = docs_index.pages()
    used: set[str] = set()

    # Markup is safe: the docs belong to the project, and HTML in them is escaped.
    def html(text: str, page: str) -> Markup:
        return Markup(docs_index.html(docs_index.resolve_links(text, page, SiteLinks(page, used), docs)))

    def heading(text: str) -> Markup:
        return Markup(docs_index.parser().renderInline(text))

    for name, page in docs.items():
        pages.write(
            f"method/{name}.html",
            "handbook.html",
            sections=[(section, html(section.text, name), heading(section.title)) for section in page.sections],
            title=docs_index.plain_text(page.title),
        )
    terms = docs_index.glossary(docs[VOCABULARY])
    context = [(term, [html(definition, VOCABULARY) for definition in term.definitions]) for term in terms]
    pages.write("method/glossary.html", "glossary.html", terms=context, vocabulary=VOCABULARY)
    groups = docs_index.group_pages(docs)
    pages.write("method/index.html", "method.html", groups=groups, terms=terms, plain=docs_index.plain_text)
    for path in used:
        to = pages.folder / "method" / path
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(docs_index.docs_dir() / path, to)
