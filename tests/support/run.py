"""A `headrace run` of a test as a process group of its own: its log, its end, and signals to all of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import aws
from tests.support.log_lines import written_lines
from tests.support.service import Route


@dataclass(slots=True)
class Run:
    """A `headrace run` that leads a process group of its own, as a service manager or a shell starts it."""

    file: Path
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its log so far."""
        return [json.loads(line) for line in written_lines(self.log) if line.startswith("{")]

    def events(self) -> list[str]:
        """What its log says, without the rest."""
        return [line["event"] for line in self.lines]

    def end(self) -> None:
        """Kill it, if it still runs; its JVM and workers end with it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def to_the_group(self, number: signal.Signals) -> None:
        """As `timeout`, and a terminal."""
        os.killpg(self.process.pid, number)

    def to_every_process(self, number: signal.Signals) -> None:
        """As systemd, whose default is all processes of the control group, at once."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            # Some last for moments only.
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and those that they did."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            started = children.read_text().split()
        except OSError:
            continue  # that thread, or all of it, has just ended
        for child in started:
            found += [int(child), *descendants(int(child))]
    return found


def start_run(
    route: Route,
    *arguments: str,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> Run:
    """A run on this route with these options, `__` in a name for a dot; whoever starts it ends it.

    `environment` is added to this process's own.
    """
    named = name or aws.unique("run")
    file = route.folder / f"{named}.json"
    log = route.folder / aws.unique(named)
    file.write_text(json.dumps({"name": named, **route.options(**{"http__listen": "", **options})}))
    argv = [str(Path(sys.executable).with_name("headrace")), "run", str(file), *arguments]
    inherited = dict(os.environ)  # noqa: TID251  # a child's is all that it is given
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=inherited | dict(environment or {}),
        )
    return Run(file, log, process)
