"""What the portal does in the background after its start: import what pages need, and open each page once.

The pages are opened by a session without a browser. This fills the caches of answers, verdicts and tables; a visitor
who comes meanwhile waits for the same work rather than doing it again.
"""

from __future__ import annotations

import asyncio
import pkgutil
import webbrowser
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module

from streamlit import App, config, runtime
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import SessionClient
from streamlit.web.server import server_util

from tmflow.portal import pages


def warm(names: Sequence[str]) -> Callable[[App], AbstractAsyncContextManager[None]]:
    """What Streamlit runs as long as the server does; names: the pages to open, in this order."""

    @asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[None]:
        preparing = asyncio.create_task(prepare(names))
        yield
        preparing.cancel()

    return lifespan


class Reader(SessionClient):
    """A session's client that only waits for the end of a page."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def write_forward_msg(self, msg: ForwardMsg) -> None:
        """Receive a message of the server."""
        if msg.WhichOneof("type") == "script_finished":
            self.ended.set()


async def prepare(names: Sequence[str]) -> None:
    """Open a browser, import the modules of all pages, and open the pages with these names."""
    await asyncio.to_thread(open_browser)
    await asyncio.to_thread(import_pages)
    await open_pages(names)


def open_browser() -> None:
    """Open the portal in a browser of this machine, if it has a screen, as Streamlit does only for a plain script."""
    if not config.get_option("server.headless"):
        listening = config.get_option("server.address") or "localhost"
        webbrowser.open(server_util.get_url(server_util.get_display_address(listening)))


def import_pages() -> None:
    """Import the modules of all pages."""
    for module in pkgutil.iter_modules(pages.__path__, f"{pages.__name__}."):
        import_module(module.name)


async def open_pages(names: Sequence[str]) -> None:
    """Open the pages with these names, one after another."""
    server, reader = runtime.get_instance(), Reader()
    session = server.connect_session(reader, {})
    try:
        for name in names:
            reader.ended.clear()
            message = BackMsg()
            message.rerun_script.page_name = name
            server.handle_backmsg(session, message)
            await reader.ended.wait()
    finally:
        server.close_session(session)
