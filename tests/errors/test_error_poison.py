"""An object that kills the worker that reads it is found out; all others go on (docs/errors.md)."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from bench.stage import Service
from headrace.model.error_policy import MAX_LONELY_DEATHS
from headrace.model.ledger_entry import State
from tests.errors.harness import Stand, counted, json_lines, stand
from tests.support.proxy import Silent
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

LINES: Final = json_lines(*counted(100))
BESIDE: Final = 20


def readers(port: int, proxy: int) -> list[int]:
    """Ids of the processes that hold the TCP socket with this local port to the proxy's.

    By its local port alone it may be another test's: the same port is free towards other addresses.
    """
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ends = [int(field.rpartition(":")[2], 16) for field in fields[1:3]]
        if ends == [port, proxy]:
            inodes.add(f"socket:[{fields[9]}]")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end while it is looked at.
        with suppress(OSError):
            if any(link.readlink().name in inodes for link in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


@contextmanager
def deadly(on: Stand, key: str) -> Iterator[list[int]]:
    """Whoever reads this object dies of it, by SIGKILL, while it waits for the answer; who did, in order.

    The proxy swallows the request, so that the reader is still there to be found and killed.
    """
    on.proxy.on(Silent(), when=lambda request: on.is_get(request, key))
    over = threading.Event()
    proxy = int(on.proxy.url.rpartition(":")[2])
    killed: list[int] = []

    def watch() -> None:
        met = 0
        while not over.wait(0.02):
            reads = on.gets(key)
            if len(reads) == met:
                continue
            met = len(reads)
            found = readers(reads[-1].peer, proxy)
            for pid in found:
                os.kill(pid, signal.SIGKILL)
            # A process that is being forked holds the socket, too: it is one death.
            killed.extend(found[:1])

    thread = threading.Thread(target=watch, name="deadly", daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
        on.proxy.off()


def test_it_is_found_out_and_the_others_go_on(tmp_path: Path) -> None:
    """Once in company, three times alone: then it is quarantined, and nobody else is."""
    with stand(tmp_path, "poison", sqs__queue__url=None, poll__interval__ms=500, poll__listing="full") as on:
        topic = on.topic()
        key = f"{topic}/poison"
        beside = [f"{topic}/beside-{number}" for number in range(BESIDE)]
        with deadly(on, key) as killed:
            for name in (*beside[: BESIDE // 2], key, *beside[BESIDE // 2 :]):
                on.put(name, json_lines({"id": name}))
            end = on.await_end(key, seconds=120)
            for name in beside:
                assert on.await_end(name)["outcome"] == "done"
        assert (end["outcome"], end["reason"], end["attempts"]) == (
            "quarantined",
            "worker_died",
            MAX_LONELY_DEATHS,
        )
        assert str(MAX_LONELY_DEATHS) in end["error"]
        assert MAX_LONELY_DEATHS <= len(killed) <= MAX_LONELY_DEATHS + 1
        assert len(on.gets(key)) == len(killed)
        assert len(on.values(topic)) == BESIDE
        on.await_ready(ready=True)
        entry = on.entry(key)
        assert entry is not None
        assert entry.state is State.QUARANTINED
        for name in beside:
            done = on.entry(name)
            assert done is not None
            # One that was read in the same batch ran alone once, as a suspect, and survived.
            assert (done.state, done.attempts <= 1) == (State.DONE, True)


@pytest.mark.long
def test_attempts_survive_the_driver(tmp_path: Path) -> None:
    """Once under suspicion, the driver dies with each worker: its attempts were in the ledger before.

    The first death only makes the object suspect, which the driver has to live for.
    """
    with stand(tmp_path, "driver", sqs__queue__url=None, poll__interval__ms=500, poll__listing="full") as on:
        topic = on.topic()
        key = f"{topic}/poison"
        on.put(key, LINES)
        with deadly(on, key) as killed:
            deaths = 1
            while on.end(key) is None:
                until_sync(
                    lambda deaths=deaths: len(killed) > deaths or on.end(key) is not None,  # type: ignore[misc] # the default binds the loop's variable
                    seconds=120,
                    what="one more death",
                )
                # A worker may also die while the service starts: the next driver dies of that one at once.
                deaths = len(killed)
                assert deaths <= MAX_LONELY_DEATHS + 1
                if on.end(key) is None:
                    assert isinstance(on.service, Service)
                    on.service.kill()
                    on.service.start()
        end = on.await_end(key)
        assert (end["outcome"], end["reason"], end["attempts"]) == (
            "quarantined",
            "worker_died",
            MAX_LONELY_DEATHS,
        )
        # One of the attempts may be written and not begun when its driver dies: it counts all the same.
        assert MAX_LONELY_DEATHS <= len(killed) <= MAX_LONELY_DEATHS + 1
        assert len(on.gets(key)) == len(killed)
        on.goes_on(topic)
