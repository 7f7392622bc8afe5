"""Streamlit's command line, with a server that asks nobody for this machine's address.

Streamlit asks a host on the internet for it, to print it where it listens on all addresses, and for each WebSocket from
another origin, while every other visitor waits. No setting of Streamlit's turns that off.
"""

from __future__ import annotations

from streamlit import net_util
from streamlit.web import cli


def _unknown() -> None:
    """What Streamlit goes on with where that host gives no answer."""


if __name__ == "__main__":
    net_util.get_external_ip = _unknown
    cli.main(prog_name="streamlit")
