"""The command `headrace`: its subcommands, each imported when it is called, and what becomes of an error.

Examples of a command's use and its exit codes are under the options in its `--help`.
"""

import gc
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from headrace.model.errors import Exit, HeadraceError, exit_code
from headrace.model.text_formatting import printable
from ingest.cli.interrupts import Interrupts, is_of_output, say

_MEANINGS: Final = {
    Exit.DONE: "done",
    Exit.FAILED: "anything else that went wrong",
    Exit.CONFIGURATION: "the configuration is wrong, or names what does not exist",
    Exit.UNUSABLE: "broker, bucket or ledger not usable",
    Exit.LEAD_LOST: "--until-idle: another instance of this name took over",
    Exit.QUARANTINED: "--until-idle ended with quarantined objects, or a restore read no key",
}
# Of single commands, where it means more or something else.
_WITHIN: Final = {Exit.UNUSABLE: "broker, bucket or ledger not usable within --startup-timeout"}
_MEANINGS_OF: Final[dict[str, Mapping[Exit, str]]] = {
    **dict.fromkeys(("run", "worker", "status", "replay", "mark"), _WITHIN),
    "plan": {**_WITHIN, Exit.QUARANTINED: "a restore that reads none of the keys that are there"},
}
# Two columns of blanks before a line and between its parts come on top.
_WIDTH: Final = 76
_ASKING: Final = (Exit.DONE, Exit.FAILED, Exit.CONFIGURATION, Exit.UNUSABLE)

_EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "run": (
        ("headrace run orders.json", "until SIGTERM or Ctrl-C"),
        ("headrace run orders.json --until-idle", "once through all that is there"),
        ("headrace run orders.json --set tasks.max=4 --log-format console", "tried by hand"),
    ),
    "worker": (
        ("headrace worker worker.properties", "connectors by POST to port 8083"),
        ("headrace worker worker.json --connectors conf.d", "connectors are files"),
    ),
    "setup": (
        ("headrace setup orders.json --dry-run", "what is missing"),
        ("headrace setup orders.json", "make it; safe to repeat"),
    ),
    "check": (("headrace check orders.json", "before the first start, and when nothing arrives"),),
    "lint": (
        ("headrace lint orders.json", "before it is committed"),
        ("headrace lint orders.json --strict", "warnings are problems, too"),
    ),
    "options": (
        ("headrace options rotate.", "all whose names begin so"),
        ("headrace options --schema > headrace.schema.json", "for an editor"),
    ),
    "translate": (
        ("headrace translate connect-sink.json", "what `run` makes of it"),
        ("headrace translate connect-sink.json --json", "the same for scripts"),
    ),
    "explain": (
        ("headrace explain orders.json orders/2026/01/31/part-0001.jsonl", "one key"),
        ("headrace explain orders.json - --json < keys.txt", "many, one a line"),
    ),
    "plan": (("headrace plan orders.json", "what `run` would do now"),),
    "policy": (
        ("headrace policy orders.json", "what credentials have to allow"),
        ("headrace policy orders.json --for run", "one document, for the tools of AWS"),
        ("headrace policy orders.json --cluster-arn arn:aws:kafka:..", "with Kafka's actions on MSK"),
    ),
    "athena": (
        ("headrace athena archive.json", "the table over each topic's objects"),
        ("headrace athena archive.json --topic orders --glue table", "for `aws glue create-table`"),
    ),
    "status": (
        ("headrace status orders.json --watch", "every second, until Ctrl-C"),
        ("headrace status orders.json --state quarantined", "which objects need an operator, and why"),
        ("headrace status orders.json --key in/part-0001.jsonl", "one object"),
        ("headrace status worker.properties --worker", "all connectors of a worker"),
        ("headrace status worker.properties --worker --connector orders", "one of them"),
    ),
    "replay": (
        ("headrace replay orders.json --dry-run", "what is quarantined or failed"),
        ("headrace replay orders.json --prefix in/2026/", "try those again, from where they stopped"),
        ("headrace replay orders.json --key in/a.jsonl --from-start", "a second time, whole"),
    ),
    "mark": (
        ("headrace mark orders.json --until 2026-01-31T08:30:00Z --dry-run", "which objects that is"),
        ("headrace mark orders.json --until 2026-01-31T08:30:00Z", "count them as done"),
    ),
}
_CODES: Final[dict[str, tuple[Exit, ...]]] = {
    "run": tuple(Exit),
    "plan": (*_ASKING, Exit.QUARANTINED),
    **dict.fromkeys(("policy", "lint", "options", "translate"), (Exit.DONE, Exit.FAILED, Exit.CONFIGURATION)),
}


def epilog(command: str) -> str:
    """The end of a command's help: examples, then exit codes."""
    # A paragraph that begins with a backspace is not wrapped.
    examples = _EXAMPLES[command]
    width = max(len(line) for line, _ in examples)
    shown = [f"  {line:<{width}}  {remark}" for line, remark in examples]
    if width + max(len(remark) for _, remark in examples) > _WIDTH:
        shown = [f"  {line}\n      {remark}" for line, remark in examples]
    meanings = {**_MEANINGS, **_MEANINGS_OF.get(command, {})}
    codes = [f"  {code.value}  {meanings[code]}" for code in _CODES.get(command, _ASKING)]
    return "\b\n" + "\n".join(["Examples:", *shown, "", "\b", "Exit codes:", *codes])


COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("ingest.cli.run", "Ingest objects as they arrive, or archive topics."),
    "worker": ("ingest.cli.run", "Run many connectors, with Kafka Connect's REST interface."),
    "setup": ("ingest.cli.setup", "Make what is missing: queue, notification, topics."),
    "check": ("ingest.cli.check", "Look at the configuration and all that it points at."),
    "lint": ("ingest.cli.configuration_commands", "Read the configuration; contacts nothing."),
    "options": ("ingest.cli.configuration_commands", "Print the reference of options."),
    "translate": (
        "ingest.cli.configuration_commands",
        "Print another vendor's configuration in our options.",
    ),
    "explain": ("ingest.cli.explain", "Say what becomes of a key; contacts nothing."),
    "plan": ("ingest.cli.plan", "Show what `run` would do now."),
    "policy": ("ingest.cli.policy", "Print the least IAM policy; contacts nothing."),
    "athena": ("ingest.cli.athena", "Print the DDL of Athena's table over what a sink writes."),
    "status": ("ingest.cli.status", "Show what it is doing, once or with --watch."),
    "replay": ("ingest.cli.replay_and_mark", "Ingest objects of a source again."),
    "mark": ("ingest.cli.replay_and_mark", "Count objects of a source as done, unread."),
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
    """Brings the objects of an S3 bucket to Apache Kafka, and archives topics into S3: exactly once."""


def main(interrupts: Interrupts) -> NoReturn:
    """Run the command line and exit with the contract's code; an error of ours is one clear text."""
    try:
        interrupts.run(lambda: app(obj=interrupts))
    except HeadraceError as error:
        for line in str(error).splitlines():
            say(printable(line, limit=10_000))
        sys.exit(exit_code(error))
    except BrokenPipeError:
        # Somebody closed the pipe we print into (`| head`): not an error of ours.
        sys.stderr.close()
        sys.exit(Exit.FAILED)
    except OSError as error:
        if not is_of_output(error):
            raise
        say(f"Standard output cannot be written: {error.strerror}.")
        sys.exit(Exit.FAILED)
    sys.exit(Exit.DONE)
