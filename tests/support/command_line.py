"""The command line of what measures or draws here and is no test: all arguments are checked, `--help` tells them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    """Of the module that was started with `python -m`; its docstring is the description."""
    main = sys.modules["__main__"]
    name = main.__spec__.name if main.__spec__ else main.__name__
    return argparse.ArgumentParser(
        prog=f"python -m {name}", description=main.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def report(text: str) -> Path:
    """A file of Markdown to write, in a folder that there is: a measurement of minutes is not lost at its end."""
    path = Path(text)
    if path.suffix != ".md" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' should be a file *.md in a folder that exists")
    return path


def folder(text: str) -> Path:
    """A folder that there is."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' should be a folder that exists")
    return Path(text)


def count(text: str) -> int:
    """How many of something: at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' should be a whole number from 1 on")
    return int(text)
