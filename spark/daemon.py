"""The process from which Spark forks its Python workers, with our libraries loaded and a memory limit set.

Named by `spark.python.daemon.module`. Only libraries that start no thread when imported may be loaded here: a
fork carries memory over, but no threads (pyarrow and polars start some; a test keeps watch).
"""

import contextlib
import gc
import importlib
import os
import re
import signal
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, BinaryIO, Final

import botocore.session
from botocore.exceptions import BotoCoreError

from headrace.aws.aws_credentials import load_service_models
from spark.memory import container_bytes, limit_memory, refuse_unused, worker_bytes

PRELOADED: Final = (
    "numpy",
    "msgspec",
    "structlog",
    "tenacity",
    "botocore.httpsession",
    "confluent_kafka",
    "isal.igzip",
    "pyspark.worker",
)

_ARCHIVE: Final = re.compile(r"/(pyspark|py4j-[^/]*)\.zip$|\.jar$")
_GONE: Final = (BrokenPipeError, ConnectionResetError)


def preload() -> None:
    """Import what every task needs; nothing here may start a thread."""
    refuse_unused()
    for name in PRELOADED:
        importlib.import_module(name)
    # A profile that is not there, or a broken file, is for the task that makes a client to tell.
    with contextlib.suppress(BotoCoreError, OSError):
        load_service_models(botocore.session.get_session())
    # What is loaded now is never garbage: keep its pages shared between the workers.
    gc.freeze()


def without_archives(path: list[str]) -> list[str]:
    """The places of `path` where modules are looked for, without Spark's own archives of what is installed.

    Spark puts its `pyspark.zip`, `py4j-*.zip` and a jar before everything else. What is imported from an
    archive is compiled in every process: 0.7 s of CPU before the first task. They stay where their Spark is
    not the one that PySpark is installed with.
    """
    installed = [place for place in path if not _ARCHIVE.search(place)]
    spec = PathFinder.find_spec("pyspark", installed)
    if spec is None or spec.origin is None:
        return path
    home = Path(spec.origin).resolve().parent
    return [
        place for place in path if not _ARCHIVE.search(place) or home not in Path(place).resolve().parents
    ]


def import_what_is_installed() -> None:
    """Look for modules in none of these archives any more."""
    kept = without_archives(sys.path)
    for place in set(sys.path).difference(kept):
        # Each task has the names in all that are known here read again: 0.04 s.
        sys.path_importer_cache.pop(place, None)
    sys.path[:] = kept


def end_quietly() -> None:
    """Let a worker whose task the JVM has ended, and whose answer is not taken any more, end without a word.

    A stop, a changed configuration and a core given to another connector end tasks so, each time: pyspark
    prints the broken connection with its stack for each.
    """
    module: Any = importlib.import_module("pyspark.worker")
    run_task = module.main

    def main(infile: BinaryIO, outfile: BinaryIO) -> None:
        is_wanted = True
        try:
            run_task(infile, outfile)
        except _GONE:
            is_wanted = False
        finally:
            try:
                outfile.flush()
            except _GONE:
                is_wanted = False
                with Path(os.devnull).open("wb") as nowhere:
                    os.dup2(nowhere.fileno(), outfile.fileno())
        if not is_wanted:
            # Not to be used for another task.
            sys.exit(1)

    module.main = main


if __name__ == "__main__":
    import_what_is_installed()
    from pyspark.daemon import manager

    # The JVM ends us and our workers by closing pipes. A service manager's SIGTERM to every process must not
    # reach workers before the driver has asked them to commit; blocked, it stays so in what is forked here.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    preload()
    end_quietly()
    limit_memory(worker_bytes(container_bytes()))
    manager()
