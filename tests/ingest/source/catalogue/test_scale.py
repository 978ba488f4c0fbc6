"""A million entries and a hundred thousand pending objects: bounded in memory, merged in passing."""

import time
import tracemalloc

import pytest

from headrace.kafka.cache_files import CacheDirectory, collect_rows
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ListingPage, ObjectId, Route, S3Object
from headrace.model.slot_protocol import BatchOutcome, Checkpoint, Finished
from ingest.source.catalogue import Catalogue, ObjectFilter
from ingest.source.planner import Backoff, BatchLimits, Planner
from tests.ingest.source.catalogue.fake_ledger import FakeView
from tests.support.instants import at

PAGE = 1000


def key_of(number: int) -> str:
    """A key of usual length."""
    return f"year=2026/month=01/day=31/topic-name-00-{number:012}.jsonl.gz"


def test_pending_objects_are_small() -> None:
    """100,000 of them stay under 100 MB, keys and all."""
    count = 4_000
    catalogue = Catalogue(
        view=FakeView(),
        filters={
            "bucket": ObjectFilter(
                route=lambda key: Route(topic="topic", partition=0, start_offset=int(key[-21:-9]))
            )
        },
    )
    planner = Planner(catalogue, limits=BatchLimits(slots=2), backoff=Backoff(first_ms=1, longest_ms=1))
    tracemalloc.start()
    for first in range(0, count, PAGE):
        objects = tuple(
            S3Object(
                id=ObjectId("bucket", key_of(number), f"{number:032x}"),
                size=1000 + number,
                last_modified_ms=1_700_000_000_000 + number * 1000,
            )
            for number in range(first, first + PAGE)
        )
        page = ListingPage(
            bucket="bucket",
            listing_id=1,
            is_full=True,
            after_key=None if first == 0 else key_of(first - 1),
            through_key=key_of(first + PAGE - 1),
            objects=objects,
        )
        catalogue.on_listing_page(page, at(1_800_000_000_000))
        planner.tick(at(1_800_000_000_000))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{size / count:.0f} bytes for a pending object")  # noqa: T201 - the figure is the point
    assert catalogue.pending_objects == count
    assert size / count < 1000


def test_a_great_replay_is_read_in_pages() -> None:
    """What waits in the ledger costs neither memory nor a long turn, at the start or when there is room."""
    count, room = 40_000, 500
    waiting = encode_entry(LedgerEntry(state=State.NEW, size=1))
    identity = LedgerIdentity(cluster_id="c", topic="t", topic_id="i")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as cache:
        for first in range(0, count, 10_000):
            numbers = range(first, first + 10_000)
            cache.apply(
                collect_rows((encode_key(ObjectId("bucket", key_of(n), "e")), waiting) for n in numbers),
                first,
            )
        catalogue = Catalogue(
            view=CacheLedgerView(cache),
            filters={"bucket": ObjectFilter(route=lambda _: Route(topic="topic"))},
            max_pending_objects=room,
        )
        planner = Planner(
            catalogue,
            limits=BatchLimits(slots=1),
            backoff=Backoff(first_ms=1, longest_ms=1, jitter=lambda: 0.0),
        )
        tracemalloc.start()
        begun = time.process_time()
        assert catalogue.resume(at(0)).pending == room
        for plan in range(20):
            works = planner.next_batch(0, plan, at(plan))
            done = LedgerEntry(state=State.DONE)
            planner.on_committed(plan, [Checkpoint(key=work.object.id, entry=done) for work in works])
            planner.on_finished(plan, Finished(batch=plan, outcome=BatchOutcome.CLEAN), at(plan))
            planner.tick(at(plan))
        seconds = time.process_time() - begun
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert works[0].object.id.key > key_of(room)
    print(f"{seconds:.2f} s, {peak / 2**20:.1f} MiB for 20 refills from {count} entries")  # noqa: T201 - the figure is the point
    assert peak < 10 * 2**20
    # Without pages each refill would go through all entries.
    assert seconds < 20


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_million_finished_objects_are_listed_in_passing() -> None:
    """A thousand scans, no look-up, nothing kept."""
    count = 1_000_000
    entries = [
        (ObjectId("bucket", key_of(number), "e"), LedgerEntry(state=State.DONE)) for number in range(count)
    ]
    view = FakeView()
    view.fill(entries)
    catalogue = Catalogue(view=view, filters={"bucket": ObjectFilter(route=lambda _: Route(topic="topic"))})
    seconds = 0.0
    for first in range(0, count, PAGE):
        objects = tuple(
            S3Object(id=ObjectId("bucket", key_of(number), "e"), size=1, last_modified_ms=0)
            for number in range(first, first + PAGE)
        )
        page = ListingPage(
            bucket="bucket",
            listing_id=1,
            is_full=True,
            after_key=None if first == 0 else key_of(first - 1),
            through_key=None if first + PAGE == count else key_of(first + PAGE - 1),
            objects=objects,
        )
        begun = time.perf_counter()
        effects = catalogue.on_listing_page(page, at(1_800_000_000_000))
        seconds += time.perf_counter() - begun
        assert effects.pending == 0
    print(f"{seconds:.1f} s to merge {count} listed objects")  # noqa: T201 - the figure is the point
    assert (view.scans, view.gets) == (count // PAGE, 0)
    assert catalogue.is_idle is False  # the ledger has not been asked for unfinished objects yet
    catalogue.resume(at(0))
    assert catalogue.is_idle
    assert seconds < 60
