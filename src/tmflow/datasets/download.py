"""Downloading a dataset's files from its mirrors: verified before they get their name, so never half there."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tmflow.base.errors import BadInput
from tmflow.datasets import idx
from tmflow.datasets.catalogue import IdxFile

TIMEOUT_S = 10.0  # to connect, and for each piece: a mirror that stalls is given up
PIECE_BYTES = 1 << 16


class NotAvailable(BadInput):
    """The dataset is not on this machine and cannot be downloaded; nothing that exists is wrong."""


def download(files: Iterable[IdxFile], folder: Path, mirrors: Iterable[str], timeout_s: float = TIMEOUT_S) -> None:
    """Download each file, gzipped, into `folder` as <name>.gz. A mirror that failed once is not asked again.

    Raises NotAvailable, with the reason of each mirror, once none is left.
    """
    alive = list(mirrors)
    failures: list[str] = []
    for file in files:
        data = None
        while data is None:
            if not alive:
                raise NotAvailable("; ".join(failures) or "no mirror is given")
            url = f"{alive[0].rstrip('/')}/{file.name}.gz"
            try:
                data = _get(url, file, timeout_s)
                file.decode(idx.gunzip(data, "the download"), "the download")
            except (OSError, http.client.HTTPException, ValueError, BadInput) as error:
                data = None
                failures.append(f"{url}: {_reason(error)}")
                del alive[0]
        _keep(data, folder / f"{file.name}.gz")


def _get(url: str, file: IdxFile, timeout_s: float) -> bytes:
    """The body of the answer, with a progress bar. A body longer than the uncompressed file is cut: it is wrong."""
    request = urllib.request.Request(url, headers={"User-Agent": "tmflow"})
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        promised = int(answer.headers["Content-Length"]) if "Content-Length" in answer.headers else None
        pieces = bytearray()
        with _progress(promised, file.name) as advance:
            while len(pieces) <= file.content_bytes and (piece := answer.read(PIECE_BYTES)):
                pieces += piece
                advance(len(piece))
    if promised is not None and len(pieces) < promised:
        raise OSError(f"truncated after {len(pieces):,} of {promised:,} bytes")
    return bytes(pieces)


@contextlib.contextmanager
def _progress(total: int | None, name: str) -> Iterator[Callable[[int], object]]:
    """What takes the bytes that have come, and shows them; where there is no tqdm, a line stands for the bar."""
    if importlib.util.find_spec("tqdm") is None:
        print(f"downloading {name}", file=sys.stderr)
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="B", unit_scale=True, desc=f"downloading {name}") as bar:
        yield bar.update


def _reason(error: Exception) -> str:
    """What went wrong, in a few words and without a full stop."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return (str(cause) or type(cause).__name__).rstrip(".")


def _keep(data: bytes, path: Path) -> None:
    """Write the file under a name of this process, then rename it, so that no reader ever sees a part of it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise NotAvailable(f"{path} cannot be written: {error.strerror}") from error
