"""The command line: thin commands over the package. Exit codes: 0 success, 2 bad input, 1 any other failure.

Commands import their dependencies when called, so that no command waits for those of another.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer

from tmflow._version import __version__
from tmflow.base.errors import BadInput, PipelineFailed, RoundFailed, Stopped, Unsupported, refusal
from tmflow.base.text import printable
from tmflow.cli import (
    advise,
    bench,
    bundle,
    cluster,
    compare,
    database,
    machine,
    regressions,
    results,
    steps,
    study,
    train,
)
from tmflow.cli.options import explain, require_text

app = typer.Typer(
    name="tmflow",
    help="Which way of synchronising parallel SGD should you use, and does transactional memory ever pay off?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(machine.doctor)
app.command()(machine.probe)
app.command()(train.train)
app.command()(compare.compare)
app.command()(advise.advise)
app.add_typer(cluster.app, name="cluster")
app.add_typer(bench.app, name="bench")
app.add_typer(study.app, name="study")
app.command()(results.claims)
app.command()(regressions.regressions)
app.command()(database.ingest)
app.add_typer(database.app, name="db")
app.add_typer(bundle.app, name="bundle")
app.command()(results.portal)
app.command()(results.publish)
app.command()(results.pages)
app.add_typer(steps.app, name="step", hidden=True)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"tmflow {__version__}")
        raise typer.Exit


@app.callback()
def _main(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True)) -> None:
    pass


def _terminated(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; bad input is one sentence and exit code 2.

    SIGTERM unwinds like ctrl-C, so that a command ends the processes that it started. SIGINT is handled even if a
    script started the command in the background with SIGINT ignored: the processes of a round handle it as well.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        require_text(sys.argv[1:])
        sys.exit(app(prog_name="tmflow", standalone_mode=False))
    except typer.TyperException as error:
        print(explain(error), file=sys.stderr)
        sys.exit(error.exit_code)
    except BadInput as error:  # the sentence may quote an untrusted file
        print("tmflow:", printable(str(error), also="\n"), file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if (sentence := refusal(error)) is None:
            raise
        print(f"tmflow: {sentence}", file=sys.stderr)
        sys.exit(2)
    except (Unsupported, RoundFailed, PipelineFailed, Stopped) as error:
        print(f"tmflow: {error}", file=sys.stderr)
        sys.exit(error.code if isinstance(error, Stopped) else 1)
