"""The command `headrace`: its subcommands, and what becomes of an error that ends one."""

import sys
from typing import NoReturn

import typer

from ingest.cli.check import check
from ingest.cli.explain import explain
from ingest.cli.mark import mark
from ingest.cli.plan import plan
from ingest.cli.replay import replay
from ingest.cli.run import run
from ingest.cli.setup import setup
from ingest.cli.status import status
from ingest.errors import HeadraceError
from ingest.exits import Exit, exit_code
from ingest.printable import printable

app = typer.Typer(
    name="headrace",
    help="Brings the objects of an S3 bucket to Apache Kafka as they arrive, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (run, setup, check, explain, plan, status, replay, mark):
    app.command()(command)


def main() -> NoReturn:
    """Run the command line and exit with the contract's code; an error of ours is one clear text."""
    try:
        app()
    except HeadraceError as error:
        for line in str(error).splitlines():
            print(printable(line, limit=10_000), file=sys.stderr)  # noqa: T201 - the command's answer
        sys.exit(exit_code(error))
    except BrokenPipeError:
        # Somebody closed the pipe we print into (`| head`): not an error of ours, and nobody to tell.
        sys.stderr.close()
        sys.exit(Exit.FAILED)
    sys.exit(Exit.DONE)
