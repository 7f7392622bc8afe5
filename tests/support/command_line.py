"""The command line of benchmarks and drawing programs in tests/: all arguments are checked, `--help` describes them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    """The parser of the module started with `python -m`; its docstring is the description."""
    main = sys.modules["__main__"]
    name = main.__spec__.name if main.__spec__ else main.__name__
    return argparse.ArgumentParser(
        prog=f"python -m {name}", description=main.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def report(text: str) -> Path:
    """A Markdown file to write, in an existing folder, so that minutes of measurement are not lost at the end."""
    path = Path(text)
    if path.suffix != ".md" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' should be a file *.md in a folder that exists")
    return path


def folder(text: str) -> Path:
    """An existing folder."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' should be a folder that exists")
    return Path(text)


def count(text: str) -> int:
    """A positive number of things."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' should be a whole number from 1 on")
    return int(text)
