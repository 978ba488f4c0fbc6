"""The command `headrace`: its subcommands, each imported when it is called, and what becomes of an error."""

import gc
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from headrace.model.errors import HeadraceError
from headrace.model.exits import Exit, exit_code
from headrace.model.sanitize import printable
from ingest.cli.examples import epilog
from ingest.cli.interrupts import Interrupts

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("ingest.cli.run", "Ingest objects as they arrive."),
    "worker": ("ingest.cli.worker", "Run many connectors, with Kafka Connect's REST interface."),
    "setup": ("ingest.cli.setup", "Make what is missing: queue, notification, topics."),
    "check": ("ingest.cli.check", "Look at the configuration and all that it points at."),
    "lint": ("ingest.cli.lint", "Read the configuration; contacts nothing."),
    "options": ("ingest.cli.option_reference", "Print the reference of options."),
    "translate": ("ingest.cli.translate", "Print another vendor's configuration in our own options."),
    "explain": ("ingest.cli.explain", "Say what becomes of a key; contacts nothing."),
    "plan": ("ingest.cli.plan", "Show what `run` would do now."),
    "policy": ("ingest.cli.policy", "Print the least IAM policy; contacts nothing."),
    "athena": ("ingest.cli.athena", "Print the DDL of Athena's table over what a sink writes."),
    "status": ("ingest.cli.status", "Show what it is doing, once or with --watch."),
    "replay": ("ingest.cli.replay", "Ingest objects again."),
    "mark": ("ingest.cli.mark", "Count objects as done without reading them."),
}
"""Where each command's function of this name is, and what the list of commands says of it.

A command imports what it uses: `--version` needs no Kafka client, and `lint` no Arrow.
"""


class _Subcommands(Mapping[str, Any]):
    """The command of each name, imported and made by a look at it."""

    def __getitem__(self, name: str) -> Any:
        module, summary = COMMANDS[name]
        made = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        function = getattr(import_module(module), name)
        made.command(name, short_help=summary, epilog=epilog(name))(function)
        return get_command(made)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    """The commands; one that is only listed is not imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Subcommands()

    def list_commands(self, *_context: Any) -> list[str]:
        """The names in their order."""
        return list(COMMANDS)

    def format_commands(self, _context: Any, formatter: Any) -> None:
        """The names with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was asked for, which runs next."""
        found = super().resolve_command(ctx, args)
        gc.enable()
        if isinstance(ctx.obj, Interrupts):
            ctx.obj.begin()
        return found


app = typer.Typer(
    cls=_Group,
    name="headrace",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if asked:
        # Its parsers of mail headers take longer than all else that this command does.
        from importlib.metadata import version

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


def main(interrupts: Interrupts) -> NoReturn:
    """Run the command line and exit with the contract's code; an error of ours is one clear text."""
    try:
        interrupts.run(lambda: app(obj=interrupts))
    except HeadraceError as error:
        for line in str(error).splitlines():
            print(printable(line, limit=10_000), file=sys.stderr)  # noqa: T201 - the command's answer
        sys.exit(exit_code(error))
    except BrokenPipeError:
        # Somebody closed the pipe we print into (`| head`): not an error of ours.
        sys.stderr.close()
        sys.exit(Exit.FAILED)
    sys.exit(Exit.DONE)
