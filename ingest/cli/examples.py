"""What is under the options in each command's `--help`: an example of its use, and its exit codes."""

from typing import Final

from headrace.model.exits import Exit

_MEANINGS: Final = {
    Exit.DONE: "done",
    Exit.FAILED: "anything else that went wrong",
    Exit.CONFIGURATION: "the configuration is wrong, or names what does not exist",
    Exit.UNUSABLE: "broker, bucket or ledger not usable within --startup-timeout",
    Exit.LEAD_LOST: "--until-idle: another instance of this name took over",
    Exit.QUARANTINED: "--until-idle ended with quarantined objects",
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
    "worker": (Exit.DONE, Exit.FAILED, Exit.CONFIGURATION, Exit.UNUSABLE),
    "explain": (Exit.DONE, Exit.FAILED, Exit.CONFIGURATION),
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
    codes = [f"  {code.value}  {_MEANINGS[code]}" for code in _CODES.get(command, _ASKING)]
    return "\b\n" + "\n".join(["Examples:", *shown, "", "\b", "Exit codes:", *codes])
