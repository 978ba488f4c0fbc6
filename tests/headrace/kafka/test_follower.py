import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.kafka.cache_files import CacheDirectory, LastRead, collect_rows
from headrace.kafka.kafka_errors import LedgerEndHidden
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.ledger_follower import Applied, Follower, read_uncommitted
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.errors import InvalidLedger, Unavailable
from headrace.model.ledger_entry import State, encode_key
from tests.headrace.kafka.ingester import DONE, Ingester, object_id
from tests.support.kafka import read_committed
from tests.support.until import until_sync

pytestmark = pytest.mark.parts

ANY = LedgerIdentity(cluster_id="c", topic="t", topic_id="i")


class Reading:
    """A follower with its cache, in memory."""

    def __init__(
        self,
        ingester: Ingester,
        properties: Mapping[str, Any] = MappingProxyType({}),
        *,
        start: int = 0,
        cache: LedgerCache | None = None,
    ) -> None:
        self.applied: list[Applied] = []
        self.cache = cache or LedgerCache(CacheDirectory(path=None, is_shared=False), ANY)
        self.follower = Follower(
            {**ingester.clients.consumer, **properties},
            self.cache,
            topic=ingester.topic,
            group=f"headrace-{ingester.name}",
            start=start,
            on_applied=self.applied.extend,
        )

    def close(self) -> None:
        """Stop reading."""
        self.follower.close()
        self.cache.close()


@pytest.fixture
def reading(ingester: Ingester) -> Iterator[Reading]:
    """Reads the ingester's ledger from its start."""
    made = Reading(ingester)
    yield made
    made.close()


def true_end(ingester: Ingester) -> int:
    """Where the log ends, open transactions counted."""
    return ingester.admin.ends(ingester.topic)[1]


def test_an_empty_ledger_is_at_its_end(ingester: Ingester, reading: Reading) -> None:
    """Nothing to read is read at once."""
    reading.follower.wait_for_visible_end(60)
    reading.follower.wait_for(true_end(ingester), 60)
    assert reading.follower.position == 0
    assert list(reading.cache.scan("bucket")) == []


def test_the_end_is_known_before_a_patient_fetch_would_return(ingester: Ingester) -> None:
    """A takeover waits for up to three ends, and a broker answers a fetch of nothing after half a second."""

    def takes() -> float:
        with closing(Reading(ingester)) as reading:
            began = time.monotonic()
            reading.follower.wait_for_visible_end(60)
            return time.monotonic() - began

    # On a busy machine one may well take longer; a patient fetch would take it each time.
    assert any(takes() < 0.4 for _ in range(40))


def test_a_live_follower_leaves_the_broker_in_peace(ingester: Ingester) -> None:
    """What waits for news has its fetches wait at the broker: two a second for each connector, not fifty."""
    seen: dict[str, list[tuple[float, int]]] = {}

    def note(text: str) -> None:
        said = json.loads(text)
        fetches = sum(broker["req"]["Fetch"] for broker in said["brokers"].values())
        seen.setdefault(said["client_id"] + said["name"], []).append((said["ts"] / 1e6, fetches))

    reading = Reading(ingester, {"statistics.interval.ms": 250, "stats_cb": note})
    reading.follower.wait_for_visible_end(60)
    reading.follower.go_live()
    until_sync(lambda: len(seen) == 2 and len(list(seen.values())[1]) >= 8, seconds=60)
    reading.close()

    (began, first), *_, (ended, last) = list(seen.values())[1][2:]
    assert (last - first) / (ended - began) < 10


def test_the_end_lies_beyond_markers_and_aborted_records(ingester: Ingester, reading: Reading) -> None:
    """The log ends in an aborted record and its marker, which no reader gets: only EOF tells of them.

    Mutation tried: a position from records alone never reaches the end, and `wait_for` raises.
    """
    metadata, producer = ingester.lead().metadata(), ingester.slot(0)
    ingester.checkpoint(producer, metadata, object_id(1))
    ingester.write(producer, metadata, object_id(2))
    producer.abort_transaction(60)
    # The abort is answered before its marker is in the log.
    until_sync(lambda: true_end(ingester) == 4, seconds=60, what="a record and a marker, twice")
    end = 4
    reading.follower.wait_for(end, 60)
    assert reading.follower.position == end
    assert [known.id for known in reading.cache.scan("bucket")] == [object_id(1)]
    assert reading.cache.last_read == LastRead(epoch=0, end=end)
    # What has it next is held against the ledger up to there, and reads on.
    reading.follower.close()
    later = Reading(ingester, cache=reading.cache)
    try:
        ingester.checkpoint(ingester.slot(1), metadata, object_id(3))
        until_sync(lambda: reading.cache.get(object_id(3)) == DONE, seconds=60)
        assert [one.key for one in later.applied] == []
    finally:
        later.follower.close()


def test_a_position_after_lost_markers_is_not_where_it_has_read_to(ingester: Ingester) -> None:
    """Else what is written in their place would count as read, by who waits for it and by slots in the open.

    Mutation tried: the cache's position, and nothing is waited for.
    """
    metadata = ingester.lead().metadata()
    ingester.checkpoint(ingester.slot(0), metadata, object_id(1))
    cache = LedgerCache(CacheDirectory(path=None, is_shared=False), ANY)
    with closing(Reading(ingester, cache=cache)) as first:
        first.follower.wait_for(2, 60)
        first.follower.close()
        # As a version had it that knew no epoch of markers, before brokers lost them.
        cache.apply(collect_rows([]), 50, last_read=LastRead(epoch=0, end=1))
        with closing(Reading(ingester, cache=cache)) as reading:
            reading.follower.wait_for_visible_end(60)
            assert reading.follower.position == true_end(ingester) == 2


def test_an_open_transaction_hides_commits_that_have_happened(ingester: Ingester, reading: Reading) -> None:
    """The trap of every other "end": slot 1 has committed, and slot 0's open transaction hides it.

    Reading to EOF and planning then would produce its rows again. Mutation tried: `ends` with READ_COMMITTED
    returns without the committed entry.
    """
    metadata = ingester.lead().metadata()
    holding, committing = ingester.slot(0), ingester.slot(1)
    ingester.write(holding, metadata, object_id(0))
    ingester.checkpoint(committing, metadata, object_id(1))
    reading.follower.wait_for_visible_end(60)
    assert reading.cache.get(object_id(1)) is None, "this is the trap"
    # The commit is answered before its marker is in the log, which wait_for has to be told the end of.
    until_sync(lambda: true_end(ingester) == 3, what="two records and a marker")
    end = 3
    with pytest.raises(LedgerEndHidden, match="open transaction"):
        reading.follower.wait_for(end, 0.5)
    holding.abort_transaction(60)
    reading.follower.wait_for(end, 60)
    assert reading.cache.get(object_id(1)) == DONE
    assert reading.cache.get(object_id(0)) is None


def test_following_tells_what_is_committed(ingester: Ingester, reading: Reading) -> None:
    """After `go_live`, once it is in the cache, in order, controls and tombstones included; aborted never."""
    metadata, producer = ingester.lead().metadata(), ingester.slot(0)
    ingester.checkpoint(producer, metadata, object_id(0))
    reading.follower.wait_for(true_end(ingester), 60)
    reading.follower.go_live()
    ingester.checkpoint(producer, metadata, object_id(1), object_id(2))
    ingester.write(producer, metadata, object_id(3))
    producer.abort_transaction(60)
    producer.begin_transaction()
    producer.produce(ingester.topic, key=encode_key(object_id(1)), value=None, partition=0)
    producer.commit_transaction(60)
    until_sync(lambda: len(reading.applied) >= 3)
    assert reading.applied == [
        Applied(object_id(1), DONE),
        Applied(object_id(2), DONE),
        Applied(object_id(1), None),
    ]
    assert [known.id for known in reading.cache.scan("bucket")] == [object_id(0), object_id(2)]
    assert reading.cache.counts()[State.DONE] == 2


def test_a_newer_ledger_ends_the_reading(ingester: Ingester, reading: Reading) -> None:
    """An entry of a format that this version does not know: who waits is told which version is needed."""
    producer = Producer({"bootstrap.servers": ingester.bootstrap})
    producer.produce(ingester.topic, key=encode_key(object_id(1)), value=b'{"v":2,"state":"done"}')
    producer.flush(60)
    with pytest.raises(InvalidLedger, match="newer"):
        reading.follower.wait_for(1, 60)
    with pytest.raises(InvalidLedger, match="newer"):
        reading.follower.check()


def test_an_offset_that_is_gone_is_said_so(ingester: Ingester) -> None:
    """Beyond the end of a topic that was made again, the reader errs rather than jump."""
    reading = Reading(ingester, start=100)
    with pytest.raises(InvalidLedger, match=r"not have any more .* up to offset 100"):
        reading.follower.wait_for(101, 60)
    reading.close()


def test_a_topic_that_cannot_be_read_is_unusable(ingester: Ingester) -> None:
    """A broker that is not there: no visible end, in so many seconds."""
    ingester.bootstrap, there = "127.0.0.1:1", ingester.bootstrap
    reading = Reading(ingester)
    ingester.bootstrap = there
    with pytest.raises(Unavailable):
        reading.follower.wait_for_visible_end(0.5)
    reading.close()


def test_a_damaged_cache_is_read_again(ingester: Ingester, reading: Reading) -> None:
    """Who asks meanwhile waits and gets what the ledger says, what came after the damage included."""
    metadata, producer = ingester.lead().metadata(), ingester.slot(0)
    ingester.checkpoint(producer, metadata, object_id(1), object_id(2))
    reading.follower.wait_for(true_end(ingester), 60)
    with reading.cache._lock:
        reading.cache._database.execute("DROP TABLE entries")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(reading.cache.get, object_id(1)).result(60) == DONE
    ingester.checkpoint(producer, metadata, object_id(3))
    reading.follower.wait_for(true_end(ingester), 60)
    assert [known.id for known in reading.cache.scan("bucket")] == [object_id(n) for n in (1, 2, 3)]


def test_damage_while_brokers_are_away(
    ingester: Ingester, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is read again once they are back."""
    metadata, producer = ingester.lead().metadata(), ingester.slot(0)
    ingester.checkpoint(producer, metadata, object_id(1))
    reading.follower.wait_for(true_end(ingester), 60)
    asked: list[float] = []

    class Away:
        """The consumer, which at first does not reach its broker."""

        def __init__(self, consumer: Any) -> None:
            self._consumer = consumer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._consumer, name)

        def get_watermark_offsets(self, place: Any, timeout: float) -> Any:
            asked.append(timeout)
            if len(asked) < 3:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return self._consumer.get_watermark_offsets(place, timeout)

    monkeypatch.setattr(reading.follower, "_consumer", Away(reading.follower._consumer))
    with reading.cache._lock:
        reading.cache._database.execute("DROP TABLE entries")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(reading.cache.get, object_id(1)).result(60) == DONE
    assert len(asked) == 3


def test_damage_met_while_writing_is_read_again(ingester: Ingester, reading: Reading) -> None:
    """The same when the follower finds it first."""
    metadata, producer = ingester.lead().metadata(), ingester.slot(0)
    ingester.checkpoint(producer, metadata, object_id(1))
    reading.follower.wait_for(true_end(ingester), 60)
    with reading.cache._lock:
        reading.cache._database.close()
    ingester.checkpoint(producer, metadata, object_id(2))
    reading.follower.wait_for(true_end(ingester), 60)
    assert [known.id for known in reading.cache.scan("bucket")] == [object_id(1), object_id(2)]


def test_an_uncommitted_read_sees_what_is_open(ingester: Ingester) -> None:
    """And what was aborted: what it finds may count."""
    metadata, producer = ingester.lead().metadata(), ingester.slot(0)
    ingester.write(producer, metadata, object_id(1))
    found = read_uncommitted(
        ingester.clients.consumer,
        topic=ingester.topic,
        group=f"headrace-{ingester.name}",
        start=0,
        end=true_end(ingester),
        timeout=60,
    )
    assert [key for key, _ in found] == [encode_key(object_id(1))]
    producer.abort_transaction(60)
    assert read_committed(ingester.topic) == []
