"""What a page has done by a tmflow of its own: its work slows no other page, and it can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection
from subprocess import PIPE

from tmflow.base.errors import BadInput


class Ended(BadInput):
    """It took too long and was ended."""


def run_tmflow(*arguments: str, within_s: float, without_env: Collection[str], given: bytes = b"") -> str:
    """Run `tmflow` with these arguments and this standard input, and return what it prints.

    `without_env` names variables of the environment that it does not get.
    Raises BadInput with what it says where it only fails, and `Ended` where it takes too long.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without_env}
    command = [sys.executable, "-m", "tmflow", *arguments]
    # A session of its own, so that what it starts is ended with it.
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True
    ) as process:
        try:
            said, complained = process.communicate(given, timeout=within_s)
        except subprocess.TimeoutExpired as error:
            raise Ended(f"this took more than {within_s:g} s and was ended; nothing of it is kept.") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode and not said:
        raise _failure(process.returncode, complained.decode(errors="replace").strip())
    return said.decode()


def _failure(code: int, complained: str) -> BadInput:
    if code == 2:
        return BadInput(complained.removeprefix("tmflow: "))
    print(complained, file=sys.stderr)  # a fault of the program: of use to whoever keeps the portal alone
    return BadInput("this went wrong; the log of the portal tells why.")
