"""Streamlit's command line without its request for this machine's public address.

Streamlit asks an internet host for the address, to print it if it listens on all addresses, and for each WebSocket from
another origin, which blocks all other visitors. No setting of Streamlit disables this.
"""

from __future__ import annotations

from streamlit import net_util
from streamlit.web import cli


def _unknown() -> None:
    """Stands for a host that does not answer; Streamlit then continues without the address."""


if __name__ == "__main__":
    net_util.get_external_ip = _unknown
    cli.main(prog_name="streamlit")
