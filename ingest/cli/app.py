"""The command `headrace`: its subcommands, and what becomes of an error that ends one."""

import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from ingest.cli.athena import athena
from ingest.cli.check import check
from ingest.cli.examples import epilog
from ingest.cli.explain import explain
from ingest.cli.lint import lint
from ingest.cli.mark import mark
from ingest.cli.option_reference import options
from ingest.cli.plan import plan
from ingest.cli.policy import policy
from ingest.cli.replay import replay
from ingest.cli.run import run
from ingest.cli.setup import setup
from ingest.cli.status import status
from ingest.cli.translate import translate
from ingest.cli.worker import worker
from ingest.errors import HeadraceError
from ingest.exits import Exit, exit_code
from ingest.sanitize import printable

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if asked:
        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def headrace(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print Headrace's version and end."
        ),
    ] = False,
) -> None:
    """Brings the objects of an S3 bucket to Apache Kafka as they arrive, exactly once."""


for command, summary in (
    (run, "Ingest objects as they arrive."),
    (worker, "Run many connectors, with Kafka Connect's REST interface."),
    (setup, "Make what is missing: queue, notification, topics."),
    (check, "Look at the configuration and all that it points at."),
    (lint, "Read the configuration; contacts nothing."),
    (options, "Print the reference of options."),
    (translate, "Print another maker's configuration in our own options."),
    (explain, "Say what becomes of a key; contacts nothing."),
    (plan, "Show what `run` would do now."),
    (policy, "Print the least IAM policy; contacts nothing."),
    (athena, "Print the DDL of Athena's table over what a sink writes."),
    (status, "Show what it is doing, once or with --watch."),
    (replay, "Ingest objects again."),
    (mark, "Count objects as done without reading them."),
):
    app.command(short_help=summary, epilog=epilog(command.__name__))(command)


def main() -> NoReturn:
    """Run the command line and exit with the contract's code; an error of ours is one clear text."""
    try:
        app()
    except HeadraceError as error:
        for line in str(error).splitlines():
            print(printable(line, limit=10_000), file=sys.stderr)  # noqa: T201 - the command's answer
        sys.exit(exit_code(error))
    except BrokenPipeError:
        # Somebody closed the pipe we print into (`| head`): not an error of ours.
        sys.stderr.close()
        sys.exit(Exit.FAILED)
    sys.exit(Exit.DONE)
