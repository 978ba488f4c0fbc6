"""A broker that is silent: its process is stopped, its connections stay open, and nobody answers."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from localstack.broker import Broker


@contextmanager
def silent(broker: Broker) -> Iterator[None]:
    """SIGSTOP as long as the block lasts."""
    pid = broker.daemon.pid
    assert pid is not None, "the broker does not run"
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
