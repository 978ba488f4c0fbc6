"""A task whose reading hangs: it ends by itself, with its batch in doubt; one that is only slow goes on."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from spark.slots import SlotEnded
from spark.source.source_work import SourceWork, task_settings
from tests.spark.scripted_driver import ScriptedDriver
from tests.support.proxy import Proxy, Request, Silent, Slow
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

_STUCK_SECONDS = 5.0
_ROWS = b"".join(b'{"row":%d,"text":"%s"}\n' % (number, b"x" * 80) for number in range(60_000))


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[Proxy]:
    """Between the tasks and S3."""
    with Proxy(s3_endpoint) as made:
        yield made


@pytest.fixture
def impatient(driver: Callable[..., ScriptedDriver], proxy: Proxy) -> ScriptedDriver:
    """A driver whose tasks read through the proxy and give up after five seconds without progress."""
    made = driver(aws_s3_endpoint=proxy.url)
    settings = replace(task_settings(made.settings, slots=2), stuck_seconds=_STUCK_SECONDS)
    made.slot_pool._work = SourceWork(settings)
    return made


def reads(request: Request) -> bool:
    """Whether this is a GET of the object."""
    return request.method == "GET" and "/object" in request.path


def test_a_task_without_progress_ends_and_its_batch_is_in_doubt(
    impatient: ScriptedDriver, proxy: Proxy, capfd: pytest.CaptureFixture[str]
) -> None:
    """S3 says nothing for longer than the limit; the slot's next task gives each row once."""
    found = impatient.put("object", _ROWS)
    impatient.ready()
    proxy.on(Silent(), when=reads)
    before = time.monotonic()
    assert impatient.slot_pool.grant(0, impatient.batch(impatient.split(found)))
    ended = impatient.expect(SlotEnded)
    assert time.monotonic() - before >= _STUCK_SECONDS
    assert not ended.clean
    # The worker's words come by way of the JVM.
    said: list[str] = []

    def is_said() -> bool:
        said.extend(capfd.readouterr())
        return "decoding_stalled" in "".join(said)

    until_sync(is_said, what="the words of the worker")

    proxy.off()
    impatient.slot_pool.void(0)
    impatient.ready()
    impatient.run(impatient.split(found))
    assert len(impatient.records()) == 60_000


def test_a_slow_object_is_no_hanging_one(impatient: ScriptedDriver, proxy: Proxy) -> None:
    """Bytes that keep coming are progress, though no batch of rows is full for longer than the limit."""
    found = impatient.put("object", _ROWS)
    impatient.ready()
    proxy.on(Slow(bytes_per_second=450_000), when=reads)
    before = time.monotonic()
    impatient.run(impatient.split(found))
    assert time.monotonic() - before > 2 * _STUCK_SECONDS
    assert [event for event in impatient.seen if isinstance(event, SlotEnded)] == []
