"""Fills the marked regions of the pages from the published runs.

A table stands between the lines `<!-- results: NAME -->` and `<!-- end -->`, with an empty line on either side; a
number between `<!-- value: NAME -->` and `<!-- end -->`. The markers are comments, which renderers do not show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tmflow.base.errors import BadInput, unknown
from tmflow.base.files import write_text
from tmflow.reports.pages.bundle_runs import Published, published_machines
from tmflow.reports.pages.cells import Numbers
from tmflow.reports.pages.schema import ClaimsTable, Pages, load_pages
from tmflow.reports.pages.tables import counts_text, table_text

END = "<!-- end -->"
REGION = re.compile(
    r"^<!-- results: (?P<table>\S+) -->\n(?P<rows>(?:(?!<!--).*\n)*?)<!-- end -->$"
    r"|<!-- value: (?P<value>\S+) -->(?P<text>[^<]*)<!-- end -->",
    re.MULTILINE,
)
MARKER = re.compile(r"<!--\s*(?:results|value|end)\b[^>]*>")


def filled_pages(root: Path) -> dict[Path, str]:
    """The text of each page of a checkout with the numbers of its published runs; nothing is written.

    Raises BadInput for a page that cannot be read, an unknown name, and a table or value that no page shows.
    """
    pages = load_pages(root)
    texts = {root / page: _read(root, page) for page in pages.pages}
    with published_machines(root / "contrib", pages.machines) as machines:
        return fill_texts(texts, pages, machines)


def fill_texts(texts: dict[Path, str], pages: Pages, machines: Mapping[str, Published]) -> dict[Path, str]:
    """The texts with the numbers of the published runs, by machine. Raises BadInput as `filled_pages`."""
    numbers, used = Numbers(machines, pages.machine), set[str]()

    def text_of(name: str, compute: Callable[[], str]) -> str:
        used.add(name)
        return compute()

    def value(name: str) -> str:
        query = pages.values[name]
        if isinstance(query, ClaimsTable):
            return counts_text(numbers.published(query.machine), query.claims)
        return numbers.value(query, f"pages.yaml: values.{name}")

    tables = {
        name: partial(text_of, name, partial(table_text, table, numbers, f"pages.yaml: tables.{name}"))
        for name, table in pages.tables.items()
    }
    values = {name: partial(text_of, name, partial(value, name)) for name in pages.values}
    result = {path: fill_regions(text, path.name, tables, values) for path, text in texts.items()}
    if unused := sorted({*tables, *values} - used):
        raise BadInput(f"pages.yaml: no page shows '{unused[0]}'; remove it, or add its marker to a page.")
    return result


def write_changed(texts: Mapping[Path, str]) -> list[Path]:
    """Write the pages whose text differs from their file; return their paths."""
    changed = []
    for path, text in texts.items():
        if path.read_text(encoding="utf-8") != text:
            write_text(path, text)
            changed.append(path)
    return changed


def _read(root: Path, page: str) -> str:
    try:
        return (root / page).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"pages.yaml: the page {page} cannot be read: {error.strerror}.") from error


def fill_regions(
    text: str, page: str, tables: Mapping[str, Callable[[], str]], values: Mapping[str, Callable[[], str]]
) -> str:
    """Replace the content of each region by what the function of its name returns.

    Raises BadInput that names the page and the line: for an unknown name, for a marker without its other half, and for
    a number whose marker begins a line, because Markdown would then show the line as a block of HTML.
    """

    def line(at: int) -> str:
        return f"{page}, line {text.count(chr(10), 0, at) + 1}"

    def replace(region: re.Match[str]) -> str:
        kind, names = ("table", tables) if region["table"] else ("value", values)
        name = region[kind]
        if name not in names:
            raise unknown(f"{kind} in {line(region.start())}:", name, names)
        if kind == "table":
            return f"<!-- results: {name} -->\n\n{names[name]()}\n\n{END}"
        if not text[: region.start()].rpartition("\n")[2].strip():
            raise BadInput(f"{line(region.start())}: the marker of '{name}' begins a line; put a word before it.")
        return f"<!-- value: {name} -->{names[name]()}{END}"

    for marker in MARKER.finditer(REGION.sub(lambda region: re.sub(r"[^\n]", " ", region[0]), text)):
        raise BadInput(f"{line(marker.start())}: '{marker[0]}' has no other half; a region ends with '{END}'.")
    return REGION.sub(replace, text)
