"""A visitor without a browser: uses Streamlit's protocol, so times are the server's, and many visitors fit here."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

PATIENCE_S = 120.0


SAYING = ("alert", "heading", "markdown")


class View(NamedTuple):
    """A page as a visitor received it: time of the first chart or table, total time, size; its text, or its failure."""

    first_s: float
    whole_s: float
    n_charts: int
    n_bytes: int
    said: frozenset[str]
    failure: str | None


class Session:
    """One visitor's connection. Use as an async context manager."""

    def __init__(self, address: str) -> None:
        self.url = f"{address.replace('http', 'ws', 1)}/_stcore/stream"

    async def __aenter__(self) -> Session:
        self.connection = await websockets.connect(self.url, subprotocols=[websockets.Subprotocol("streamlit")],
                                                   max_size=None)  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def view(self, page: str, query: str = "") -> View:
        """Open a page (its path, "" for the first) with a query string; waits until its script has ended."""
        asked = BackMsg()
        asked.rerun_script.page_name = page
        asked.rerun_script.query_string = query
        start = time.perf_counter()
        await self.connection.send(asked.SerializeToString())
        return await asyncio.wait_for(self._received(start), PATIENCE_S)

    async def _received(self, start: float) -> View:
        first, n_charts, n_bytes, failure = None, 0, 0, None
        said: set[str] = set()
        while True:
            content = await self.connection.recv()
            assert isinstance(content, bytes)
            n_bytes += len(content)
            message = ForwardMsg.FromString(content)
            kind = message.WhichOneof("type")
            if kind == "delta":
                element = message.delta.new_element.WhichOneof("type")
                if element in ("arrow_vega_lite_chart", "vega_lite_chart", "arrow_data_frame", "dataframe", "table"):
                    first = first or time.perf_counter() - start
                    n_charts += element.endswith("chart")
                if element in SAYING:
                    said.add(getattr(message.delta.new_element, element).body)
                if element == "exception":
                    failure = message.delta.new_element.exception.message
            elif kind == "script_finished":
                whole = time.perf_counter() - start
                return View(first or whole, whole, n_charts, n_bytes, frozenset(said), failure)
