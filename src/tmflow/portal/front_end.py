"""Streamlit's front end as the portal serves it: compressed.

Streamlit sends its files uncompressed, because it would have to compress them for each visitor. Here each is compressed
once, at its first request, and kept: some 1.5 MB for all that our pages use. All else is Streamlit's own.
"""

from __future__ import annotations

import gzip
import mimetypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import file_util

ROOT = Path(file_util.get_static_dir())
COMPRESSIBLE = {".js", ".css", ".svg"}  # fonts and pictures are compressed already
FOREVER = "public, immutable, max-age=31536000"  # a file's name has the hash of its content
NOT_KEPT = "no-cache"


class Answer(NamedTuple):
    """What a request for a path gets."""

    file: Path
    caching: str


class FrontEnd:
    """Middleware that answers requests for pages and for files of the front end; it passes on all others.

    pages: the paths of the pages, which share one document.
    """

    def __init__(self, app: ASGIApp, pages: Iterable[str]) -> None:
        self.app = app
        files = [file for file in (ROOT / "static").rglob("*") if file.suffix in COMPRESSIBLE]
        self.answers = {f"/{file.relative_to(ROOT).as_posix()}": Answer(file, FOREVER) for file in files}
        self.answers |= {path: Answer(ROOT / "index.html", NOT_KEPT) for path in pages}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        answer = self.answers.get(scope["path"]) if is_get and _accepts_gzip(scope) else None
        if answer is None:
            await self.app(scope, receive, send)
            return
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding", "Cache-Control": answer.caching}
        body = await run_in_threadpool(compressed, answer.file)
        await Response(body, media_type=mimetypes.guess_type(answer.file)[0], headers=headers)(scope, receive, send)


def _accepts_gzip(scope: Scope) -> bool:
    return "gzip" in Headers(scope=scope).get("accept-encoding", "")


@cache
def compressed(file: Path) -> bytes:
    """The compressed content of a file of the front end."""
    return gzip.compress(file.read_bytes(), mtime=0)
