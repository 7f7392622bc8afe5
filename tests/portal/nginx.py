"""nginx with the project's configuration on loopback: a certificate of its own, and other ports and paths."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.portal.serving import free_port
from tmflow.base.paths import project_root

HOSTING = project_root() / "portal" / "hosting"
NAME = "portal.example.org"
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


class Ports(NamedTuple):
    """Of a running nginx."""

    https: int
    http: int


@contextmanager
def nginx(folder: Path, portal: int) -> Iterator[Ports]:
    """nginx before the portal that listens on this port; the site is in the folder's `site`, if there is one."""
    ports = Ports(free_port(), free_port())
    with ending(subprocess.Popen([str(NGINX), "-c", _configuration(folder, portal, ports)])) as process:
        _wait_for_port(ports.https, process)
        yield ports


@contextmanager
def ending(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with process:
        try:
            yield process
        finally:
            process.terminate()


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"nothing listens on {port}")


def _configuration(folder: Path, portal: int, ports: Ports) -> str:
    """Our configuration, changed only in ports, paths and the certificate, in a minimal nginx.conf."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={NAME}",
         "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    ours = (HOSTING / "nginx.conf").read_text()
    for here, there in {
        f"/etc/letsencrypt/live/{NAME}": str(folder),
        "listen [::]:80;": "",
        "listen [::]:443 ssl http2;": "",
        "listen 80;": f"listen 127.0.0.1:{ports.http};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{ports.https} ssl http2;",
        "127.0.0.1:8501": f"127.0.0.1:{portal}",
        "/srv/tmflow/site;": f"{folder}/site;",
    }.items():
        assert here in ours, f"the configuration has no '{here}' any more"
        ours = ours.replace(here, there)
    (folder / "tmflow.conf").write_text(ours)
    user = "user root;\n" if os.geteuid() == 0 else ""  # else its workers may not read the test's folder
    temporary = "".join(
        f"{what}_temp_path {folder}/{what}; " for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"{user}daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{ include /etc/nginx/mime.types; access_log off; {temporary} include {folder}/tmflow.conf; }}\n"
    )
    return str(folder / "nginx.conf")
