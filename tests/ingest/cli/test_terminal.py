import codecs
import fcntl
import io
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from headrace.model.errors import Unavailable
from ingest.cli.app import app
from ingest.cli.cli_options import ledger_states, option_assignments
from ingest.cli.progress_bar import amounts, description, progress, until_idle_bar
from ingest.cli.run import worker_lines
from ingest.cli.status import bars_of, lines_of, shown, sparkline, watch_status
from ingest.http.http_server import Response
from ingest.http.snapshot import RecentObject, SinkStatus, Snapshot
from ingest.service.endpoints import StatusEndpoints

HEADRACE = str(Path(sys.executable).with_name("headrace"))
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
MOVES = re.compile(r"\x1b\[[0-9]*[AK]")

SNAPSHOT = Snapshot(
    name="uploads",
    version="1.0.0",
    role="leader",
    ready=True,
    mode="events",
    objects={"done": 3, "quarantined": 1, "pending": 4},
    pending_objects=4,
    pending_bytes=1500,
    records_total=120,
    records_per_second=40.0,
    bytes_per_second=2_000_000.0,
    problems={"queue": "it answers 503"},
    recent=(
        RecentObject(
            bucket="uploads",
            key="in/\x1b[2Jevil.jsonl",
            state="quarantined",
            reason="not_json",
            topic="orders",
            records=7,
            bad=1,
            bytes=900,
            at_ms=1_000,
        ),
    ),
)
SHAPE: dict[str, Any] = {"source": "service", **SNAPSHOT.as_dict()}


class Terminal:
    """A process on a terminal of 100 columns."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"PATH": os.defpath, "TERM": "xterm-256color", **environment},
        )
        os.close(theirs)
        self.text = ""
        # What is read at once may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, until: str | None, seconds: float = 60) -> str:
        """All that was written so far, once `until` is among it, or, for None, once the process has ended."""
        deadline = time.monotonic() + seconds
        while until is None or until not in self.text:
            assert time.monotonic() < deadline, self.text[-2000:]
            try:
                self.text += self._decoder.decode(os.read(self._ours, 65_536))
            except OSError:  # EIO: the other side is closed
                assert until is None, self.text[-2000:]
                break
        return self.text

    def close(self) -> None:
        """End the process, if it has not ended."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextmanager
def terminal(*argv: str, **environment: str) -> Iterator[Terminal]:
    """A process on a terminal, gone afterwards."""
    made = Terminal(list(argv), environment)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def configuration(tmp_path: Path) -> Iterator[Path]:
    """A configuration whose service is this process, and says the same for ever."""
    endpoints = StatusEndpoints("127.0.0.1", 0, {"/status": lambda: Response.of_json(SNAPSHOT.as_dict())})
    endpoints.start()
    file = tmp_path / "uploads.json"
    options = {
        "name": "uploads",
        "bootstrap.servers": "127.0.0.1:1",
        "aws.s3.bucket.name": "bucket",
        "topic": "orders",
        "file.name.template": ".*",
        "http.listen": f"127.0.0.1:{endpoints.port}",
    }
    file.write_text(json.dumps(options))
    yield file
    endpoints.close()


def test_a_watch_on_a_terminal_stays_in_its_place_and_ends_with_ctrl_c(configuration: Path) -> None:
    """The second answer is drawn over the first, keys are escaped, and the end is no error."""
    with terminal(HEADRACE, "status", str(configuration), "--watch", "--interval", "0.2") as watching:
        text = watching.read("Ctrl-C ends")
        watching.text = ""
        again = watching.read("Ctrl-C ends")
        watching.process.send_signal(signal.SIGINT)
        watching.read(None)

        assert watching.process.wait(60) == 0
    assert "uploads: leader" in text
    assert r"in/\x1b[2Jevil.jsonl (not_json)  7 records, 900 B" in text
    assert COLOUR.search(text)
    assert MOVES.search(again)


@pytest.mark.long
def test_no_color_is_respected(configuration: Path) -> None:
    """https://no-color.org; the cursor still moves."""
    argv = [HEADRACE, "status", str(configuration), "--watch", "--interval", "0.2"]
    with terminal(*argv, NO_COLOR="1") as watching:
        watching.read("Ctrl-C ends")
        watching.text = ""
        text = watching.read("Ctrl-C ends")

    assert MOVES.search(text)
    assert not COLOUR.search(text)


def test_a_watch_into_a_pipe_is_plain(configuration: Path) -> None:
    """One block after the other, without a single escape, even where colours are forced."""
    argv = [HEADRACE, "status", str(configuration), "--watch", "--interval", "0.2"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={"FORCE_COLOR": "1"}) as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(14)]
        watching.send_signal(signal.SIGINT)

    assert watching.returncode == 0
    assert lines.count("uploads: leader\n") == 2
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_watch_that_is_ended_from_outside_says_so(configuration: Path, number: signal.Signals) -> None:
    """As every command does; only Ctrl-C is its own end."""
    argv = [HEADRACE, "status", str(configuration), "--watch", "--interval", "0.2"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(number)
        _, words = watching.communicate(timeout=60)

    assert (watching.returncode, words) == (128 + number, f"headrace: ended by {number.name}.\n")


@pytest.mark.parametrize("interval", ["inf", "1e18", "86401", "nan"])
def test_an_interval_that_nobody_waits_for_is_refused(configuration: Path, interval: str) -> None:
    """Of some no clock of a machine has a moment."""
    result = CliRunner().invoke(app, ["status", str(configuration), "--watch", "--interval", interval])

    assert result.exit_code == 2
    assert "--interval" in result.output


@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "-1", "604801"])
def test_a_time_to_start_that_is_none_is_refused(configuration: Path, seconds: str) -> None:
    """Who gives no end would wait for ever for brokers that are not there."""
    result = CliRunner().invoke(app, ["plan", str(configuration), "--startup-timeout", seconds])

    assert result.exit_code == 2
    assert "--startup-timeout" in result.output


def _answers(*answers: dict[str, Any] | BaseException) -> Callable[[], dict[str, Any]]:
    """A question that is answered with each of these in turn, or ends with it."""
    left = iter(answers)

    def ask() -> dict[str, Any]:
        answer = next(left)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return ask


def test_a_watch_outlives_an_outage(capsys: pytest.CaptureFixture[str]) -> None:
    """What was known last is shown with the reason; the first question may fail as `status` does."""
    ask = _answers(SHAPE, Unavailable("the broker is away"), SHAPE, KeyboardInterrupt())
    with suppress(KeyboardInterrupt):
        watch_status(ask, lines_of, 0.0, as_json=True)

    problems = [json.loads(line)["problems"] for line in capsys.readouterr().out.splitlines()]
    asked = {"queue": "it answers 503"}
    assert problems == [asked, {**asked, "status": "the broker is away"}, asked]

    with pytest.raises(Unavailable):
        watch_status(_answers(Unavailable("nobody is there")), lines_of, 0.0, as_json=True)


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_a_watch_of_a_worker_outlives_an_outage(
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    """A worker's problems are a list: the reason is the last of them, once, however long it lasts."""
    shape = {
        "source": "worker",
        "worker": "a:8083",
        "group": "g",
        "leader": "a:8083",
        "workers": {},
        "problems": ["it has no file"],
        "connectors": {},
    }
    away = Unavailable("the worker is away")
    ask = _answers(shape, away, away, shape, KeyboardInterrupt())
    with suppress(KeyboardInterrupt):
        watch_status(ask, worker_lines, 0.0, as_json=as_json)

    out = capsys.readouterr().out
    first, later = ["it has no file"], ["it has no file", "the worker is away"]
    if as_json:
        assert [json.loads(line)["problems"] for line in out.splitlines()] == [first, later, later, first]
    else:
        blocks = [block.splitlines()[1:] for block in out.strip().split("\n\n")]
        said = [[f"problem   {problem}" for problem in problems] for problems in (first, later)]
        assert blocks == [said[0], said[1], said[1], said[0]]


def test_what_a_watch_shows_beside_status() -> None:
    """The rates of the last minute as a line, and the last objects, the newest first."""
    older = replace(SNAPSHOT.recent[0], key="in/older.jsonl", state="done", reason=None)
    shape = {**SHAPE, "recent": [_as_dict(older), _as_dict(SNAPSHOT.recent[0])]}

    text = shown(shape, lines_of, deque([0.0, 20.0, 40.0])).plain

    assert "rates     40 records/s, 2.0 MB/s\n           ▄█\n" in text
    assert text.index("evil") < text.index("older")
    assert sparkline(deque()) == ""
    plain = shown(shape, lines_of, deque([0.0, 20.0, 40.0]), bars_of("iso8859-1")).plain
    assert "2.0 MB/s\n           =@\n" in plain
    assert "last objects" not in shown({**SHAPE, "recent": []}, lines_of, deque()).plain


def _as_dict(recent: RecentObject) -> dict[str, Any]:
    shape: dict[str, Any] = replace(SNAPSHOT, recent=(recent,)).as_dict()["recent"][0]
    return shape


PROGRESS = """
import sys
from ingest.cli.progress_bar import progress
with progress("listing", unit="objects", total=10) as tell:
    tell(4, 10)
    tell(11, 10)
print("the answer")
"""


def test_a_bar_is_for_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Into a pipe nothing is written; on a terminal it goes away, and the answer stays."""
    with progress("listing", unit="objects", total=10) as tell:
        tell(4, 10)
    assert capsys.readouterr() == ("", "")

    with terminal(sys.executable, "-c", PROGRESS) as running:
        text = running.read(None)
    assert "listing" in text
    # More than was guessed is told without the guess.
    assert "11 objects" in text
    assert text.endswith("the answer\r\n")

    with terminal(sys.executable, "-c", PROGRESS, TERM="dumb") as running:
        assert running.read(None) == "the answer\r\n"


def test_what_the_bar_of_a_run_says() -> None:
    """All that came to an end, of all that is known so far."""
    assert amounts(SHAPE) == (4, 8)
    assert description(SHAPE) == "4 of 8 objects, 120 records, 2.0 MB/s, 1 quarantined, it answers 503"
    none = {**SHAPE, "objects": {}, "pending_objects": 0, "problems": {}}
    assert description(none) == "0 of 0 objects, 120 records, 2.0 MB/s"


def test_the_bar_counts_each_object_once() -> None:
    """What is begun or replayed is in ledger and memory; above max.pending.objects in the ledger alone."""
    objects = {"done": 3, "partial": 1, "new": 1, "pending": 1, "active": 1}
    assert amounts({**SHAPE, "objects": objects, "pending_objects": 2}) == (3, 5)
    assert amounts({**SHAPE, "objects": {"failed": 7}, "pending_objects": 2}) == (0, 7)


def test_what_the_bar_of_a_sink_says() -> None:
    """Objects become known as they are sealed, so it measures records."""
    sink = replace(SNAPSHOT, objects={}, problems={}, sink=SinkStatus(objects_total=12, lag=80)).as_dict()
    assert amounts(sink) == (120, 200)
    assert description(sink) == "12 objects, 120 of 200 records, 2.0 MB/s"
    sink["sink"]["quarantined_objects"] = 2
    assert description(sink) == "12 objects, 120 of 200 records, 2.0 MB/s, 2 quarantined"


def test_a_problem_on_the_bar_is_plain_text() -> None:
    """Keys and brokers' words have brackets, which rich would read, and keys may have escapes."""
    sentence = "s3://b/a [/tmp] \x1b]0;owned\x07 [thrd:ssl://b1] is refused (503)."
    drawn, looked = io.StringIO(), threading.Event()

    def look() -> dict[str, Any]:
        if "thrd" in drawn.getvalue():
            looked.set()
        return {**SHAPE, "problems": {"objects": sentence}}

    with until_idle_bar(look, Console(file=drawn, force_terminal=True, width=300)):
        assert looked.wait(30)

    assert "s3://b/a [/tmp] \\x1b]0;owned\\x07 [thrd:ssl://b1] is refused (503)." in drawn.getvalue()


COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]  # the app is a group


def _helped(command: str) -> tuple[Any, str]:
    """The command, and the text of its help."""
    group: Any = get_command(app)
    with typer.Context(group) as context:
        subcommand = group.get_command(context, command)
        return subcommand, subcommand.get_help(typer.Context(subcommand, info_name=command, parent=context))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str) -> None:
    """Each command shows an example that it would take, and its exit codes."""
    subcommand, text = _helped(command)

    examples = re.findall(r"^ +(headrace .+?)(?:  .*)?$", text, re.MULTILINE)
    assert examples
    for example in examples:
        _, verb, *arguments = shlex.split(example.partition("<")[0])
        assert verb == command
        subcommand.make_context(verb, arguments)
    assert re.search(r"Exit codes:\n +0  done\n", text)
    assert "  2  the configuration is wrong" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_exit_codes_name_options_that_the_command_has(command: str) -> None:
    """What an exit code names can be typed there."""
    subcommand, text = _helped(command)

    taken = {option for parameter in subcommand.params for option in parameter.opts}
    named = set(re.findall(r"--[a-z-]+", text.partition("Exit codes:")[2]))
    assert named <= taken


def test_the_help_of_plan_has_the_end_of_a_restore_that_reads_nothing() -> None:
    """`plan` ends with 5 where `run --until-idle` would; the help of both says when."""
    assert re.search(r"\n +5  a restore that reads none", _helped("plan")[1])
    assert re.search(r"\n +5  .* a restore read no key", _helped("run")[1])


def _offered(*words: str, shell: str = "bash") -> list[str]:
    """What bash offers for the last of these words, with the script that the command itself gives."""
    line = " ".join(shlex.quote(word) for word in words)
    script = f"""
        PATH={shlex.quote(str(Path(HEADRACE).parent))}:$PATH
        source <(headrace --show-completion {shell})
        COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
        $(complete -p headrace | sed 's/.*-F \\([^ ]*\\).*/\\1/') headrace
        complete -p headrace
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    complete, *offered = found.stdout.splitlines()
    assert "-o default" in complete, "without it files are not offered where nothing else is"
    return [one for one in offered if one]


def test_completion_in_bash() -> None:
    """Where a configuration stands bash offers files."""
    assert _offered("headrace", "run", "") == []


@pytest.mark.long
def test_more_completion_in_bash() -> None:
    """Commands, options, choices, and values that only this program knows."""
    assert _offered("headrace", "st") == ["status"]
    assert _offered("headrace", "status", "--wa") == ["--watch"]
    assert _offered("headrace", "status", "a.json", "--state", "qu") == ["quarantined"]
    assert _offered("headrace", "run", "a.json", "--set", "file.name.te") == ["file.name.template="]


def test_what_is_offered_beside() -> None:
    """States and options as the ledger and the configuration know them."""
    assert ledger_states("qu") == ["quarantined"]
    assert option_assignments("file.name.te") == ["file.name.template="]
    assert not option_assignments("no such")


@pytest.mark.parametrize("arguments", [(), ("--log-format", "json")], ids=["by itself", "json"])
def test_the_log_on_a_terminal_is_for_people(configuration: Path, arguments: tuple[str, ...]) -> None:
    """Columns, unless JSON is asked for; the broker is away, so that it ends soon."""
    argv = [HEADRACE, "run", str(configuration), "--set", "http.listen=", "--startup-timeout", "1"]
    with terminal(*argv, *arguments) as running:
        text = running.read(None)

        assert running.process.wait(60) == 3
    assert "service_started" in text
    assert ('"event": "service_started"' in text) is bool(arguments)
    assert ("service_started " in text and COLOUR.search(text) is not None) is not bool(arguments)
