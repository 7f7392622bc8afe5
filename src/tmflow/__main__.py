"""`tmflow` and `python -m tmflow` are the command line, which the extra `study` brings."""

import sys

from tmflow.base.extras import NotInstalled, requires_extra


def main() -> None:
    """Run the command line; a package of an extra that is not installed is one sentence and exit code 2."""
    try:
        with requires_extra("the command line"):
            from tmflow.cli import main as command_line

            command_line()
    except NotInstalled as error:
        print(f"tmflow: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
