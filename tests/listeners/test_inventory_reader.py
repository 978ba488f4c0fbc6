"""An inventory before the first listing: all that it names, held back as a listing is."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import structlog.testing
from structlog.typing import EventDict

from headrace.formats.inventory_manifest import Manifest
from headrace.model.objects import ListingPage
from headrace.options import Settings
from listeners.discovery import DiscoveryMonitor
from listeners.discovery_events import Backoff, Event, InventoryWaits, ListingBegun, ListingKind
from listeners.inventory import InventoryReader
from listeners.listing import PAGES_IN_FLIGHT, Bucket, Lister
from tests.headrace.options.loading import load_with
from tests.support.fake_bucket import FakeBucket
from tests.support.inventory import Inventory, InventoryRow, inventory
from tests.support.listening import Inbox, service_error
from tests.support.until import until

AT_ONCE = Backoff(first=0.0, longest=0.0)
Fails = Callable[[int, Mapping[str, Any]], Exception | None]


class _Body:
    """The body of an answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def read(self) -> bytes:
        """All of it."""
        return self._data


class _Client(FakeBucket):
    """A bucket that lists `keys`, beside one with the inventory's files; GETs fail on request."""

    def __init__(
        self, made: Inventory, *, keys: tuple[str, ...] = (), get_fails: Fails = lambda _n, _a: None
    ) -> None:
        super().__init__(keys)
        self._made = made
        self._get_fails = get_fails
        self.gets: list[Mapping[str, Any]] = []

    async def get_object(self, **given: Any) -> Mapping[str, Any]:
        """A range of a file."""
        self.gets.append(given)
        if (error := self._get_fails(len(self.gets), given)) is not None:
            raise error
        assert given["Bucket"] == self._made.bucket
        begin, _, last = given["Range"].removeprefix("bytes=").partition("-")
        body = self._made.objects.get(given["Key"])
        if body is None:
            raise service_error("NoSuchKey", 404, "GetObject")
        if int(begin) >= len(body):
            raise service_error("InvalidRange", 416, "GetObject")
        return {"Body": _Body(body[int(begin) : int(last) + 1])}


class _Service(Inbox):
    """Acknowledges every page as soon as it comes, unless it is busy."""

    lister: Lister
    is_busy = False

    def post(self, event: Event) -> None:
        super().post(event)
        if isinstance(event, ListingPage) and not self.is_busy:
            self.lister.page_done()

    @property
    def keys(self) -> list[str]:
        return [found.id.key for page in self.of(ListingPage) for found in page.objects]


def _settings(folder: Path, **more: str) -> Settings:
    given = {
        "aws.s3.bucket.name": "incoming",
        "state.dir": str(folder),
        "aws.s3.backoff.max.retries": "1",
        **more,
    }
    return load_with(given)


def _reader(client: _Client, settings: Settings, **more: int) -> tuple[_Service, InventoryReader]:
    service = _Service()
    service.lister = Lister(
        client=client,
        bucket=Bucket(name="incoming"),
        post=service.post,
        counters=service.counters,
        pauses=AT_ONCE,
    )
    reader = InventoryReader(
        client=client,
        lister=service.lister,
        post=service.post,
        counters=service.counters,
        settings=settings,
        pauses=AT_ONCE,
        **more,
    )
    return service, reader


def _read(
    client: _Client, settings: Settings, *manifests: Manifest, **more: int
) -> tuple[_Service, list[EventDict]]:
    async def scenario() -> _Service:
        service, reader = _reader(client, settings, **more)
        await reader.read(manifests)
        return service

    with structlog.testing.capture_logs() as logged:
        return asyncio.run(scenario()), list(logged)


def _warnings(logged: list[EventDict]) -> list[str]:
    return [str(entry["error"]) for entry in logged if entry["event"] == "inventory_file_unread"]


@pytest.mark.parametrize("form", ["CSV", "Parquet", "ORC"])
def test_what_it_names_below_the_prefix_comes_in_pages_without_order(form: str, tmp_path: Path) -> None:
    """None of them says what is not there, and no file of the inventory stays in state.dir."""
    files = [
        [InventoryRow(key=f"in/{number}") for number in range(2500, 0, -1)],
        [InventoryRow(key="out/x"), InventoryRow(key="in/x")],
    ]
    made = inventory("incoming", files, form=form)
    settings = _settings(tmp_path, **{"aws.s3.prefix": "in/"})
    service, logged = _read(_Client(made), settings, made.manifest("incoming"))
    assert service.keys == [f"in/{number}" for number in range(2500, 0, -1)] + ["in/x"]
    pages = service.of(ListingPage)
    assert [len(page.objects) for page in pages] == [1000, 1000, 500, 1]
    assert not any(page.is_full or page.is_in_order for page in pages)
    assert service.counts == {"rows listed": 2501, "rows left_out": 1}
    last = logged[-1]
    assert (last["event"], last["files"], last["rows"], last["objects"]) == ("inventory_read", 2, 2502, 2501)
    assert list(tmp_path.iterdir()) == []


def test_the_first_listing_follows_and_is_a_full_one(tmp_path: Path) -> None:
    """What was written after the inventory, or what it has missed, is found by it: nothing is lost."""
    made = inventory("incoming", [[InventoryRow(key="a"), InventoryRow(key="gone")]])
    client = _Client(made, keys=("a", "written since"))
    # With a queue that works no listing is due later.
    queue = {"sqs.queue.url": "https://sqs.us-east-1.amazonaws.com/1/q", "reconcile.interval.ms": "0"}
    settings = _settings(tmp_path, **queue)

    async def scenario() -> _Service:
        service, reader = _reader(client, settings)
        monitor = DiscoveryMonitor(settings, service.post)
        task = asyncio.create_task(
            monitor.run(
                {"incoming": service.lister},
                first={"incoming": lambda: reader.read([made.manifest("incoming")])},
            )
        )
        await until(lambda: any(page.is_full and page.is_last for page in service.of(ListingPage)))
        task.cancel()
        return service

    service = asyncio.run(scenario())
    assert service.keys == ["a", "gone", "a", "written since"]
    begun = service.of(ListingBegun)[0]
    assert (begun.kind, begun.after_key) == (ListingKind.FULL, None)
    assert service.events.index(begun) > service.events.index(service.of(ListingPage)[0])


def test_it_is_held_back_as_a_listing_is(tmp_path: Path) -> None:
    """`max.pending.objects` bounds what is read of an inventory, however many objects it names."""
    made = inventory("incoming", [[InventoryRow(key=f"{number:06}") for number in range(20_000)]])

    async def scenario() -> tuple[int, int]:
        service, reader = _reader(_Client(made), _settings(tmp_path))
        service.is_busy = True
        task = asyncio.create_task(reader.read([made.manifest("incoming")]))
        for _ in range(1000):
            await asyncio.sleep(0)
        held = len(service.of(ListingPage))
        service.is_busy = False
        for _ in range(held):
            service.lister.page_done()
        await task
        return held, len(service.keys)

    assert asyncio.run(scenario()) == (PAGES_IN_FLIGHT, 20_000)


def test_a_get_that_fails_is_repeated_and_said(tmp_path: Path) -> None:
    """From the range that failed; the sentence goes when it is read."""
    made = inventory("incoming", [[InventoryRow(key="a")]])
    refusals = [service_error("SlowDown", 503, "GetObject")] * 3
    client = _Client(made, get_fails=lambda number, _given: refusals[number - 1] if number <= 3 else None)
    service, logged = _read(client, _settings(tmp_path), made.manifest("incoming"))
    assert service.keys == ["a"]
    sentences = [event.sentence for event in service.of(InventoryWaits)]
    assert sentences[-1] is None
    assert all(
        f"initial.inventory = '{made.url}' cannot be read for now" in str(one) for one in sentences[:-1]
    )
    assert len(sentences) == 3
    assert _warnings(logged) == []


def test_a_file_that_is_refused_after_an_outage_is_waited_for_no_longer(tmp_path: Path) -> None:
    """S3 was away, and then says that the file is gone: it is passed over, and the problem is too."""
    made = inventory("incoming", [[InventoryRow(key="a")]])
    answers = [
        *[service_error("SlowDown", 503, "GetObject")] * 3,
        service_error("NoSuchKey", 404, "GetObject"),
    ]
    client = _Client(made, get_fails=lambda number, _given: answers[number - 1])
    service, logged = _read(client, _settings(tmp_path), made.manifest("incoming"))
    assert len(_warnings(logged)) == 1
    assert len(service.of(InventoryWaits)) == 3
    assert service.of(InventoryWaits)[-1].sentence is None


def _missing(made: Inventory) -> None:
    del made.objects[made.files[0]]


def _altered(made: Inventory) -> None:
    body = made.objects[made.files[0]]
    made.objects[made.files[0]] = body[:-1] + bytes([body[-1] ^ 1])


def _shorter(made: Inventory) -> None:
    made.objects[made.files[0]] = made.objects[made.files[0]][:-1]


def _empty(made: Inventory) -> None:
    made.objects[made.files[0]] = b""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_missing, "is not in s3://inventories. Give the manifest of a newer"),
        (_altered, "does not have the size or the MD5 that the manifest names"),
        (_shorter, "does not have the size or the MD5 that the manifest names"),
        (_empty, "does not have the size or the MD5 that the manifest names"),
    ],
)
def test_a_file_that_is_not_as_told_is_passed_over_in_one_sentence(
    change: Callable[[Inventory], None], sentence: str, tmp_path: Path
) -> None:
    """None of its rows is believed; the other file's are, and the listing finds the rest."""
    made = inventory("incoming", [[InventoryRow(key="a")], [InventoryRow(key="b")]])
    manifest = made.manifest("incoming")
    change(made)
    service, logged = _read(_Client(made), _settings(tmp_path), manifest)
    assert service.keys == ["b"]
    (warning,) = _warnings(logged)
    assert sentence in warning
    assert warning.startswith(f"initial.inventory = '{made.url}': its file '{made.files[0]}' ")


def test_a_file_that_may_not_be_read_names_both_permissions(tmp_path: Path) -> None:
    """An inventory encrypted with a key that these credentials may not use answers 403."""
    made = inventory("incoming", [[InventoryRow(key="a")]])
    denied = service_error("AccessDenied", 403, "GetObject")
    client = _Client(made, get_fails=lambda _number, _given: denied)
    service, logged = _read(client, _settings(tmp_path), made.manifest("incoming"))
    assert service.keys == []
    (warning,) = _warnings(logged)
    assert "Allow s3:GetObject on s3://inventories/inventories/in/daily/*, and kms:Decrypt" in warning


def test_no_room_for_a_file_is_said(tmp_path: Path) -> None:
    """The folder of state.dir is a file."""
    place = tmp_path / "taken"
    place.write_text("")
    made = inventory("incoming", [[InventoryRow(key="a")]])
    _, logged = _read(_Client(made), _settings(place), made.manifest("incoming"))
    (warning,) = _warnings(logged)
    assert "cannot be stored in state.dir" in warning
    assert "Give that folder room for one file of the inventory" in warning


def test_large_files_come_in_ranges(tmp_path: Path) -> None:
    """Each is requested by itself, and again when it fails; requests pay as configured."""
    made = inventory("incoming", [[InventoryRow(key=f"{number * 7919:08}") for number in range(99)]])
    failure = service_error("SlowDown", 503, "GetObject")
    client = _Client(made, get_fails=lambda number, _given: failure if number == 2 else None)
    settings = _settings(tmp_path, **{"aws.s3.requester.pays": "true"})
    service, _ = _read(client, settings, made.manifest("incoming"), range_bytes=256)
    assert len(service.keys) == 99
    last = len(made.objects[made.files[0]]) - 1
    ranges = [get["Range"] for get in client.gets]
    assert ranges == ["bytes=0-255", "bytes=256-511", "bytes=256-511", f"bytes=512-{last}"]
    assert {get["RequestPayer"] for get in client.gets} == {"requester"}
