"""SIGINT, SIGTERM and SIGHUP where no service answers them: one line, the exit code, never a traceback.

Until the command's own code runs, and once it is done, nothing has to be undone: a signal ends the process
at once, from a thread, because the main thread may be busy in a library's import for a second. While the
command runs a signal is raised in the main thread, so that what was opened is closed; if that takes too long
(a client waits for a broker), or a second signal comes, the process ends all the same.
"""

from __future__ import annotations

import atexit
import codecs
import io
import os
import select
import signal
import sys
import threading
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    # None of it is needed to answer a signal, and it takes longer to load than all that is.
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, Final, NoReturn

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What a process is asked to end by."""

_GRACE_SECONDS: Final = 3.0
# A signal is how these are ended: nothing went wrong.
_SERVICES: Final = frozenset({"run", "worker"})
_SHELLS_BASE: Final = 128
_STDOUT: Final = 1
_STDERR: Final = 2


def open_closed_streams() -> None:
    """Have standard input, output and errors lead nowhere where this process was started without them.

    Whatever is opened next (a socket, say) would have their numbers, and be written to by Java.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        _lead_nowhere(number)
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # to the end


def escape_what_cannot_be_shown() -> None:
    """Have standard output and errors take every character, whatever the locale's encoding has.

    One that is not in it is written as JSON writes it: what is printed may be JSON.
    """
    codecs.register_error("headrace.json", _in_json)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="headrace.json")


def _in_json(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    codes = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{codes[at : at + 4]}" for at in range(0, len(codes), 4)), error.end


def say(line: str) -> None:
    """Print a line on standard error; where that cannot be written, the exit code alone tells."""
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201  # a command's answer
    except OSError:
        # Python writes what is left in its buffer at the end.
        _lead_nowhere(_STDERR)


def is_of_output(error: OSError) -> bool:
    """Whether it comes of writing to standard output, which then leads nowhere."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    # All that a command prints goes through it.
    if last is None or last.tb_frame.f_code.co_name != "echo":
        return False
    # Python writes what is left in its buffer at the end.
    _lead_nowhere(_STDOUT)
    return True


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == number:
        os.set_inheritable(nowhere, True)
    else:
        os.dup2(nowhere, number)
        os.close(nowhere)


def ended_by(interrupt: KeyboardInterrupt) -> int:
    """The signal that `Interrupts` has raised this for; Python itself raises it for SIGINT."""
    return interrupt.args[0] if interrupt.args else signal.SIGINT


class Interrupts:
    """Answers signals from `install` on, until a service's `Stop` does. Of the main thread."""

    def __init__(self, arguments: Sequence[str]) -> None:
        verb = next((word for word in arguments if not word.startswith("-")), "")
        self._is_service = verb in _SERVICES
        self._is_watch = "--watch" in arguments
        self._received: int | None = None
        self._has_something_to_undo = False
        self._is_said = False
        self._saying = threading.RLock()

    def install(self) -> None:
        """Answer from now on what this process was not started to ignore, as `nohup` does."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._raise)
        threading.Thread(target=self._follow, args=[reading], name="interrupts", daemon=True).start()

    def begin(self) -> None:
        """The command's own code follows, which has something to undo."""
        self._has_something_to_undo = True

    def run(self, command: Callable[[], None]) -> None:
        """Run the command line; SystemExit where it was interrupted, whatever became of it by that."""
        try:
            command()
        except BaseException as error:
            self._has_something_to_undo = False
            # `status --watch` ends well by Ctrl-C.
            if self._received is None or (isinstance(error, SystemExit) and not error.code):
                raise
            self._say(self._received)
            raise SystemExit(self._code(self._received)) from None
        finally:
            self._has_something_to_undo = False

    def leave(self, code: object) -> None:
        """End the process with this code, once all that is to be done at its end is; return where it cannot.

        Python answers no signal while it takes itself apart: one of that tenth of a second would be the
        end of a command that is done.
        """
        is_alone = all(one.daemon for one in threading.enumerate() if one is not threading.main_thread())
        if not is_alone or not isinstance(code, int | None):
            return
        atexit._run_exitfuncs()  # noqa: SLF001  # what Python itself calls
        # A pipe that is closed: Python has words for it.
        with suppress(OSError, ValueError):
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code or 0)

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        """Python calls it in the main thread, once that returns from C."""
        if not self._has_something_to_undo:
            self._end(number)
        self._received = number
        # What is raised in a destructor only ends that, with a traceback on stderr; other threads fail by
        # what this one closes.
        sys.unraisablehook = threading.excepthook = _keep_silent
        raise KeyboardInterrupt(number)

    def _follow(self, reading: int) -> None:
        while numbers := os.read(reading, 16):
            number = next((one for one in numbers if one in ENDING), None)
            if number is None:
                continue
            if self._has_something_to_undo and len(numbers) == 1:
                select.select([reading], [], [], _GRACE_SECONDS)
            self._end(number)

    def _end(self, number: int) -> NoReturn:
        self._say(number)
        os._exit(self._code(number))

    def _say(self, number: int) -> None:
        # Both threads come here, and the first to leave ends the process: not before it is written.
        with self._saying:
            if not self._is_said:
                self._is_said = True
                # Past Python's stream, whose lock the main thread may hold.
                with suppress(OSError):
                    os.write(_STDERR, f"headrace: ended by {signal.Signals(number).name}.\n".encode())

    def _code(self, number: int) -> int:
        # Ctrl-C is how a watch is ended, however long it takes.
        ends_well = self._is_service or (self._is_watch and number == signal.SIGINT)
        return 0 if ends_well else _SHELLS_BASE + number


def _keep_silent(_failure: Any) -> None:
    """It follows from the signal."""
