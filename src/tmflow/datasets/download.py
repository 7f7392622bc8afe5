"""Download of the files of a dataset from its mirrors; a file is verified before it gets its name."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tmflow.base.errors import BadInput
from tmflow.base.files import write_bytes
from tmflow.datasets.mnist_files import IdxFile, gunzip

TIMEOUT_S = 10.0  # to connect, and for each piece; a mirror that stalls is abandoned


PIECE_BYTES = 1 << 16


class NotAvailable(BadInput):
    """The dataset is not on this machine and cannot be downloaded; no existing file is wrong."""


def download(files: Iterable[IdxFile], folder: Path, mirrors: Iterable[str], timeout_s: float = TIMEOUT_S) -> None:
    """Download each file, gzipped, into `folder` as <name>.gz. A mirror that has failed once is not used again.

    Raises NotAvailable, with the reason for each mirror, if all failed.
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
                file.decode(gunzip(data, "the download"), "the download")
            except (OSError, http.client.HTTPException, ValueError, BadInput) as error:
                data = None
                failures.append(f"{url}: {_reason(error)}")
                del alive[0]
        try:
            write_bytes(folder / f"{file.name}.gz", data)
        except BadInput as error:
            raise NotAvailable(str(error).rstrip(".")) from error


def _get(url: str, file: IdxFile, timeout_s: float) -> bytes:
    """Download a body, with a progress bar. A body longer than the uncompressed file is wrong: it is cut."""
    request = urllib.request.Request(url, headers={"User-Agent": "tmflow"})
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        expected = int(answer.headers["Content-Length"]) if "Content-Length" in answer.headers else None
        pieces = bytearray()
        with _progress(expected, file.name) as advance:
            while len(pieces) <= file.content_bytes and (piece := answer.read(PIECE_BYTES)):
                pieces += piece
                advance(len(piece))
    if expected is not None and len(pieces) < expected:
        raise OSError(f"truncated after {len(pieces):,} of {expected:,} bytes")
    return bytes(pieces)


@contextlib.contextmanager
def _progress(total: int | None, name: str) -> Iterator[Callable[[int], object]]:
    """Yield a function that reports received bytes to a progress bar; without tqdm, print a line instead."""
    if importlib.util.find_spec("tqdm") is None:
        print(f"downloading {name}", file=sys.stderr)
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="B", unit_scale=True, desc=f"downloading {name}") as bar:
        yield bar.update


def _reason(error: Exception) -> str:
    """The reason for an error in a few words, without a full stop."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return (str(cause) or type(cause).__name__).rstrip(".")
