"""`python -m spark.dump_classes`: makes the archive of Spark's classes, unless there is one that fits."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

import structlog

from headrace.model.errors import Unavailable
from spark.spark_conf import CLASS_PATH, JAVA_OPTIONS, QUIET, ClassArchive, fitting_archive, options_for

# The JVM writes the archive on its way out: 20 s on two slow cores.
_DUMP_SECONDS: Final = 240.0
_TRY_SECONDS: Final = 60.0
# Nobody waits for a setup that hangs; the JVM ends when this process does.
_SECONDS: Final = 420
_MAKING: Final = ".making-"


def main() -> int:
    """0 when the archive is there, else 1 and a sentence why not."""
    began = time.monotonic()
    archive = fitting_archive(os.environ)  # noqa: TID251  # the composition root of this command
    if archive is None:
        return _failed("there is no Java on JAVA_HOME or PATH with a file `release`")
    if archive.find() is not None:
        _say("Spark's classes are archived already")
        return 0
    _say("archiving Spark's classes, for quicker starts ...")
    said = _Said()
    structlog.configure(processors=[said])
    try:
        size = dump(archive)
    except (Unavailable, OSError, subprocess.SubprocessError) as error:
        return _failed(f"{str(error).partition('; its words')[0]}{said.cause}")
    _say(f"Spark's classes are archived: {size >> 20} MiB, {time.monotonic() - began:.0f} s")
    return 0


class _Said:
    """What Spark logs: sixty lines of Java where it does not start, of which one says why."""

    def __init__(self) -> None:
        self.cause = ""

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> NoReturn:
        """Keep the innermost cause, and show nothing."""
        text = str(event.get("text", ""))
        if text.startswith(("Caused by: ", "Exception in ")):
            self.cause = f" ({text.removeprefix('Caused by: ')})"
        raise structlog.DropEvent


def dump(archive: ClassArchive) -> int:
    """Make the archive and put it in place, whole or not at all; its size. OSError, Unavailable."""
    _require(archive.java, "-Xshare:on", why="this Java has no archive of its own classes to build on.")
    archive.folder.mkdir(parents=True, exist_ok=True)
    _clear(archive.folder)
    with tempfile.TemporaryDirectory(prefix=_MAKING, dir=archive.folder) as folder:
        made = Path(folder) / "classes.jsa"
        _work(archive, made)
        if not made.is_file():
            raise Unavailable("the JVM ended without writing the archive.")
        used = (*options_for(made), "-Xshare:on", "-cp", archive.class_path)
        _require(archive.java, *used, why="the JVM refuses the archive that it wrote.")
        with made.open("rb") as file:
            # Its name must not outlive a power cut that its content does not.
            os.fsync(file.fileno())
        size = made.stat().st_size
        place = archive.place(size)
        made.rename(place)
    for other in archive.folder.glob("*.jsa"):
        # Of the Java or the Spark before. A JVM that has it mapped keeps it.
        if other != place:
            other.unlink(missing_ok=True)
    return size


def _work(archive: ClassArchive, made: Path) -> None:
    """A session as ours are, with jobs as slots have them, in a JVM that notes every class it loads."""
    from spark.session import build_context, stop_context
    from spark.slots import ContextJobs, JobFailed
    from spark.slots.jobs import warm_workers
    from spark.task.entry import NoWork

    options = (f'"-XX:ArchiveClassesAtExit={made}"', *QUIET)
    given = {"spark.master": "local[2]", JAVA_OPTIONS: " ".join(options), CLASS_PATH: archive.class_path}
    context = build_context(given, name="classes")
    try:
        jobs = ContextJobs(context)
        # The first starts Python workers, the second finds them; sources and sinks ask no more of Spark.
        for _ in range(2):
            warm_workers(jobs, NoWork(), 2)
        jobs.cancel("headrace-warm")
    except JobFailed as error:
        raise Unavailable(f"a trial job failed: {error}") from error
    finally:
        stop_context(context, seconds=_DUMP_SECONDS)


def _clear(folder: Path) -> None:
    """Remove what others left that were killed at it; none works for so long."""
    for left in folder.glob(f"{_MAKING}*"):
        if left.stat().st_mtime < time.time() - 2 * _SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _failed(why: str) -> int:
    _say(f"Spark's classes are not archived: {why.rstrip('.')}", sys.stderr)
    return 1


def _say(words: str, stream: TextIO | None = None) -> None:
    """A line in the form that `make setup` has."""
    print(f"setup:      {words}", file=stream, flush=True)


def _require(java: Path, *options: str, why: str) -> None:
    """Unavailable unless Java starts with these options."""
    done = subprocess.run(
        [java, *options, "-version"], capture_output=True, check=False, timeout=_TRY_SECONDS
    )
    if done.returncode:
        raise Unavailable(why)


if __name__ == "__main__":
    signal.alarm(_SECONDS)
    sys.exit(main())
