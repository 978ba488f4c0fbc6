"""The process from which Spark forks its Python workers, with our libraries loaded and a memory limit set.

Named by `spark.python.daemon.module`. Only libraries that start no thread when imported may be loaded here: a
fork carries memory over, but no threads (pyarrow and polars start some; a test keeps watch).
"""

import contextlib
import gc
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

import botocore.session
from botocore.exceptions import BotoCoreError

from headrace.aws.aws_credentials import load_service_models
from headrace.process.own_process import show_keys
from spark.installed.sitecustomize import import_what_is_installed
from spark.memory import container_bytes, limit_memory, refuse_unused, tasks_at_once, worker_bytes

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
    show_keys(os.environ)  # noqa: TID251  # what the JVM was not to see of it
    import_what_is_installed()
    from pyspark.daemon import manager

    # The JVM ends us and our workers by closing pipes. A service manager's SIGTERM to every process must not
    # reach workers before the driver has asked them to commit; blocked, it stays so in what is forked here.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    preload()
    end_quietly()
    limit_memory(worker_bytes(container_bytes(), tasks_at_once(os.environ)))  # noqa: TID251  # as above
    manager()
