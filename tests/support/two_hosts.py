"""Two hosts for tests: network namespaces of this machine, joined by a link that delays and loses frames.

The link copies Ethernet frames between a TAP device of each namespace. `tc netem` does the same in the kernel, but many
kernels are built without it; a TAP device and a namespace are in nearly all.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

HOSTS = ("198.51.100.1", "198.51.100.2")  # of a network that is reserved for documentation
DEVICE = Path("/dev/net/tun")
SET_UP = 0x400454CA  # TUNSETIFF
ETHERNET_ONLY = 0x1002  # IFF_TAP | IFF_NO_PI
MOST_BYTES = 65_536  # of a frame


def why_not() -> str | None:
    """Why no such hosts can be made here; None if they can."""
    if shutil.which("ip") is None:
        return "`ip` is not installed (Debian: iproute2)"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    try:
        with network(delay_s=0, loss=0):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or error
        return f"this machine makes no network namespaces or TAP devices: {said}"


class Network:
    """A running link between two namespaces. `lost` counts the frames that it has lost."""

    def __init__(self, spaces: tuple[str, str], taps: tuple[int, int], delay_s: float, loss: float) -> None:
        self._spaces, self._taps, self._delay_s, self._loss = spaces, taps, delay_s, loss
        self.copied = self.lost = 0
        self._random = random.Random(1)
        self._end, self._end_now = os.pipe()
        self._thread = threading.Thread(target=self._copy)
        self._thread.start()

    def inside(self, host: int) -> list[str]:
        """How a command begins that runs on a host."""
        name_host = f'hostname host-{host} && exec "$@"'
        return ["ip", "netns", "exec", self._spaces[host], "unshare", "--uts", "sh", "-c", name_host, "sh"]

    def cut(self) -> None:
        """Take the first host off the network: it has no route any more, and the other one hears nothing."""
        _ip("-n", self._spaces[0], "link", "set", "eth0", "down")

    def close(self) -> None:
        """Stop copying."""
        os.write(self._end_now, b"x")
        self._thread.join()
        for descriptor in (self._end, self._end_now):
            os.close(descriptor)

    def _copy(self) -> None:
        """Copy each frame, unless it is lost, to the other side when its delay has passed."""
        on_the_way: deque[tuple[float, int, bytes]] = deque()
        others = dict(zip(self._taps, reversed(self._taps), strict=True))
        while True:
            patience = max(on_the_way[0][0] - time.monotonic(), 0) if on_the_way else None
            ready, _, _ = select.select([*self._taps, self._end], [], [], patience)
            if self._end in ready:
                return
            for tap in ready:
                frame = os.read(tap, MOST_BYTES)
                if self._random.random() < self._loss:
                    self.lost += 1
                else:
                    on_the_way.append((time.monotonic() + self._delay_s, others[tap], frame))
            while on_the_way and on_the_way[0][0] <= time.monotonic():
                _, tap, frame = on_the_way.popleft()
                with suppress(OSError):  # that side is down
                    os.write(tap, frame)
                self.copied += 1


@contextmanager
def network(delay_s: float, loss: float) -> Iterator[Network]:
    """Two hosts with the addresses `HOSTS`; each frame takes `delay_s`, and this share of them is lost."""
    spaces = (f"tmflow-{os.getpid()}-1", f"tmflow-{os.getpid()}-2")
    with ExitStack() as held:
        taps = []
        for space, host in zip(spaces, HOSTS, strict=True):
            _ip("netns", "add", space)
            held.callback(_ip, "netns", "delete", space)
            taps.append(os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK))
            held.callback(os.close, taps[-1])
            name = f"tm{os.getpid()}"
            fcntl.ioctl(taps[-1], SET_UP, struct.pack("16sH22x", name.encode(), ETHERNET_ONLY))
            _ip("link", "set", name, "netns", space, "name", "eth0")
            _ip("-n", space, "address", "add", f"{host}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", space, "link", "set", device, "up")
        running = Network(spaces, (taps[0], taps[1]), delay_s, loss)
        held.callback(running.close)
        yield running


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
