"""Pages from templates. All text is escaped, and every link is relative: a site works below any path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from tmflow.base.files import write_text
from tmflow.base.text import interval, span


class Pages:
    """What writes the pages of a site into a folder; `about` is known to each of them."""

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

    def write(self, path: str, template: str | None = None, **told: Any) -> None:
        """The page at `path` from the site's folder, by the template of that name or of its own path."""
        root = "../" * path.count("/")
        text = self._templates.get_template(template or path).render(root=root, here=path, **told)
        write_text(self.folder / path, text)
