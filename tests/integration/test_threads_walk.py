"""Every thread of the running service, ended by an error that nobody expected: the service ends with it."""

import ctypes
import gc
import http.client
import json
import os
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from headrace.model.errors import Exit
from headrace.options import Settings
from headrace.vendors.load import load
from ingest.service.composition import RunOptions, Service
from ingest.service.stop import Stop
from localstack.ports import free_port
from tests.faults import processes
from tests.support import aws
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

# By the beginning of their names; the walk fails when a running service has others.
_THREADS: Final = (
    "headrace-0-",
    "http.listen",
    "ledger-follower",
    "ledger-watch",
    "ledger-writes",
    "listeners",
    "member-",
    "recovery",
    "rest.listen",
    "slots-accept",
    "slots-keeper",
    "slots-task",
    "spark-log",
    "topic-creation",
)
# They come and go with a call.
_PASSING: Final = ("group-commit", "slots-close", "slots-warm", "spark-startup", "startup")


class Injected(BaseException):
    """Nothing that any code of ours or of a library would catch."""


class RunningService:
    """A service in a thread of this process, so that its threads can be reached."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._name = aws.unique("walk")
        self._rest_port = free_port()
        self._stop = Stop()
        self.code: Exit | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="under test", daemon=True)
        self._before = set(threading.enumerate())

    def start(self) -> None:
        """Return when a batch is at work in its one slot."""
        self._thread.start()
        self._route.upload("slow.jsonl", rows("slow", 100_000))
        until_sync(lambda: self.find("slots-task") is not None or self.error, seconds=120, what="a slot")
        assert self.error is None, self.error

    def threads(self) -> list[threading.Thread]:
        """Those of ours that run, by how they are started."""
        started = [one for one in threading.enumerate() if one not in self._before]
        return [
            one for one in started if getattr(_target(one), "__module__", "") == "headrace.process.threads"
        ]

    def find(self, beginning: str) -> threading.Thread | None:
        """The thread whose name begins so."""
        return next((one for one in self.threads() if one.name.startswith(beginning)), None)

    def wake(self) -> None:
        """Give every thread something to do: an injected error is raised by the next step of its code."""
        for verb in ("pause", "resume"):
            # A service that has ended does not answer.
            with suppress(OSError, http.client.HTTPException):
                self._ask("PUT", f"/connectors/{self._name}/{verb}")
        self._route.upload("more.jsonl", rows("more", 10))
        processes.kill(processes.workers(os.getpid()))

    def end(self) -> None:
        """Ask it to end."""
        self._stop.asked.set()

    def close(self) -> None:
        """End it if it still runs."""
        self._stop.at_once.set()
        self.end()
        self._thread.join(60)
        assert not self._thread.is_alive()
        # An injected error that is raised later would be collected by the next case's service.
        until_sync(lambda: not self.threads(), seconds=60, what="the end of all its threads")
        self._forget()

    def _forget(self) -> None:
        """Let go of what ended threads had open: it hangs on their frames, and would be a later test's."""
        for error in (self.error, getattr(self.error, "__context__", None)):
            if error is not None:
                traceback.clear_frames(error.__traceback__)
        self.error = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def _ask(self, method: str, path: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._rest_port, timeout=30)
        try:
            connection.request(method, path)
            connection.getresponse().read()
        finally:
            connection.close()

    def _run(self) -> None:
        try:
            self.code = Service(self._settings(), RunOptions(), self._stop, lambda: None).run()
        except BaseException as error:  # noqa: BLE001 - what the test asks for
            self.error = error

    def _settings(self) -> Settings:
        options = self._route.options(
            name=self._name,
            tasks__max=1,
            max__bytes__per__second=200_000,
            http__listen=f"127.0.0.1:{free_port()}",
            rest__listen=f"127.0.0.1:{self._rest_port}",
            spark__master="local[1]",
            topic__creation__default__partitions=1,
            topic__creation__default__replication__factor=1,
        )
        return load(
            json.dumps(options),
            kind="json",
            environment={"HOME": str(self._route.folder)},
            read_file=lambda path: path,
        )


def _target(thread: threading.Thread) -> object:
    return getattr(thread, "_target", None)


def inject(thread: threading.Thread) -> None:
    """Raise `Injected` in this thread, as soon as it runs Python code."""
    assert thread.ident is not None
    found = ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(Injected)
    )
    assert found == 1


def is_injected(error: BaseException | None) -> bool:
    """Whether it is ours, alone or in a group."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(Injected) is not None
    return isinstance(error, Injected)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A service with a batch at work, ended afterwards."""
    with ExitStack() as stack:
        made = RunningService(new_route(tmp_path))
        stack.callback(made.close)
        made.start()
        yield made


@pytest.mark.parametrize("name", _THREADS)
def test_a_thread_that_dies_ends_the_service(service: RunningService, name: str) -> None:
    """Not in silence: what it did would be undone, with health green."""
    thread = service.find(name)
    assert thread is not None, [one.name for one in service.threads()]
    inject(thread)
    service.wake()
    if name == "topic-creation":
        # Nothing but a missing topic or the end wakes it.
        service.end()
    # The watch of the ledger looks once a minute.
    until_sync(lambda: service.error or service.code, seconds=120, what="the service's end")
    assert is_injected(service.error), service.error


def test_the_walk_knows_every_thread(service: RunningService) -> None:
    """A thread that is added has to be walked too."""
    names = {one.name for one in service.threads() if not one.name.startswith(_PASSING)}
    unknown = {name for name in names if not name.startswith(_THREADS)}
    assert unknown == set()
    assert {beginning for beginning in _THREADS if service.find(beginning)} == set(_THREADS)
