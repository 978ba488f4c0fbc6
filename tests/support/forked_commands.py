"""`headrace` as forks of one process: each command is a process, and what they all import is imported once.

For commands that end by themselves. A process from scratch takes two seconds of CPU before it does anything.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[2]
# What a service imports until it can look at what it was given.
_IMPORTED: Final = ("ingest.cli.run", "ingest.service.composition", "headrace.kafka.ledger_reader")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and all that it said."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class ForkedCommands:
    """The process that forks, and waits for each fork."""

    process: "subprocess.Popen[str]"

    def run(self, *arguments: object) -> Ended:
        """`headrace` with these arguments, when it has ended; the test's own timeout is its only one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(one) for one in arguments]) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return Ended(**answer)


@contextmanager
def forked_commands() -> Iterator[ForkedCommands]:
    """Ended afterwards, with whatever still runs."""
    argv = [sys.executable, "-m", "tests.support.forked_commands"]
    with subprocess.Popen(
        argv, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield ForkedCommands(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _serve() -> None:
    """Fork for each line of arguments, and answer with how that one ended; in the fork run the command."""
    for name in _IMPORTED:
        import_module(name)
    main = import_module("ingest.__main__").main
    while line := sys.stdin.readline():
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(stdout.fileno(), 1)
                os.dup2(stderr.fileno(), 2)
                sys.argv = ["headrace", *json.loads(line)]
                sys.exit(main())
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            said = {"stdout": _content(stdout), "stderr": _content(stderr)}
        sys.stdout.write(json.dumps({"code": code, **said}) + "\n")
        sys.stdout.flush()


def _content(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode(errors="replace"))


if __name__ == "__main__":
    _serve()
