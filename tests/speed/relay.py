"""A relay between a browser and a server that counts the bytes which the browser receives, as they are transferred."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.parse import urlsplit

CHUNK = 1 << 16


class Relay:
    """Passes everything on; `n_bytes` grows."""

    def __init__(self, server: str) -> None:
        self.host, self.port = urlsplit(server).hostname, urlsplit(server).port
        self.n_bytes = 0
        self.address = ""

    async def serve(self, ready: Event) -> None:
        """Listen on a free port, which is that of `address` once it is ready, until `stop`."""
        listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = "http://{}:{}".format(*listening.sockets[0].getsockname())
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self.stop = lambda: loop.call_soon_threadsafe(stopped.set)
        ready.set()
        async with listening:
            await stopped.wait()

    async def _connected(self, browser: StreamReader, to_browser: StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(self.host, self.port)
        with suppress(asyncio.CancelledError):  # at the end; asyncio would report it
            await asyncio.gather(self._pass(browser, to_server), self._pass(server, to_browser, counts=True))

    async def _pass(self, source: StreamReader, target: StreamWriter, *, counts: bool = False) -> None:
        try:
            while data := await source.read(CHUNK):
                self.n_bytes += len(data) * counts
                target.write(data)
                await target.drain()
        except ConnectionError:  # either side may leave at any time
            pass
        finally:
            target.close()


@contextmanager
def counted(server: str) -> Iterator[Relay]:
    """A relay to the server at this address, in a thread of its own."""
    relay, ready = Relay(server), Event()
    thread = Thread(target=lambda: asyncio.run(relay.serve(ready)))
    thread.start()
    ready.wait()
    try:
        yield relay
    finally:
        relay.stop()
        thread.join()
