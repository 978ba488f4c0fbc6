"""Both ways into librdkafka give the same records, and know their limits."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.kafka.librdkafka import handle_of, library
from headrace.kafka.producer.batch_produce import BatchProduce, best_produce_path
from headrace.kafka.producer.record_calls import RecordProduce
from headrace.kafka.producer.window import DEFAULTS, producer_properties
from headrace.model.columns import NULL_LENGTH, Column, ProducePath, RecordTarget, RowBatch
from headrace.model.errors import RecordRefused
from headrace.model.positions import BytePosition
from headrace.options.choices import Partitioner
from tests.support.kafka import Record, TopicFactory, read_committed


def column(texts: Sequence[bytes | None]) -> Column:
    """A column of these byte strings, with gaps between them."""
    buffer, starts, lengths = bytearray(b"gap"), [], []
    for text in texts:
        starts.append(len(buffer))
        lengths.append(NULL_LENGTH if text is None else len(text))
        buffer += (text or b"") + b"|"
    return Column(
        buffer=bytes(buffer), starts=np.array(starts, np.int64), lengths=np.array(lengths, np.int64)
    )


def batch(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    headers: tuple[tuple[tuple[str, bytes | None], ...], ...] | None = None,
    timestamps: Sequence[int] | None = None,
) -> RowBatch:
    """Rows without an object behind them."""
    return RowBatch(
        values=column(values),
        keys=None if keys is None else column(keys),
        headers=headers,
        timestamps_ms=None if timestamps is None else np.array(timestamps, np.int64),
        after=BytePosition(0),
        positions=BytePosition,
    )


def is_void() -> bool:
    """Nobody has cut anything off."""
    return False


def ordinary(producer: Producer) -> ProducePath:
    """A call for each row."""
    return RecordProduce(producer, is_void)


def buffer(producer: Producer, partitioner: str = "murmur2", partitions: int = 1) -> ProducePath:
    """A call for each batch, on topics of so many partitions; it is there, or the test fails."""
    path = best_produce_path(
        producer,
        RecordProduce(producer, is_void),
        is_void,
        partitioner=partitioner,
        partitions=lambda _topic: partitions,
    )
    assert isinstance(path, BatchProduce)
    return path


PATHS = {"ordinary": ordinary, "buffer": buffer}


@pytest.fixture(params=list(PATHS))
def path_of(request: pytest.FixtureRequest) -> Callable[[Producer], ProducePath]:
    """Each path."""
    return PATHS[request.param]


@pytest.fixture
def properties(kafka_bootstrap: str) -> dict[str, str]:
    """Of a slot's producer, with a queue that is soon full."""
    return producer_properties(
        {
            "bootstrap.servers": kafka_bootstrap,
            "queue.buffering.max.messages": "1000",
            "partitioner": "murmur2",
        }
    )


def sent(
    properties: dict[str, str],
    path_of: Callable[[Producer], ProducePath],
    target: RecordTarget,
    *batches: RowBatch,
) -> list[Record]:
    """What arrives of the batches."""
    producer = Producer({**properties, "enable.idempotence": True})
    path = path_of(producer)
    for rows in batches:
        path.send(target, rows, 0, len(rows))
    assert producer.flush(60) == 0
    path.close()
    return read_committed(target.topic)


@pytest.mark.parts
def test_nulls_empties_and_keys_arrive_as_they_are(
    properties: dict[str, str], path_of: Callable[[Producer], ProducePath], topic: TopicFactory
) -> None:
    """Null is not empty, for values and for keys."""
    target = RecordTarget(topic=topic(), partition=0)
    values = [b"", None, b"\x00", b"value"]
    keys = [None, b"", b"\xff", b"key"]

    records = sent(properties, path_of, target, batch(values, keys))

    assert [record.value for record in records] == values
    assert [record.key for record in records] == keys


@pytest.mark.parts
@pytest.mark.parametrize("key", [None, b"", b"object/key"], ids=["null", "empty", "key"])
def test_the_constant_key_serves_all_rows(
    properties: dict[str, str],
    path_of: Callable[[Producer], ProducePath],
    topic: TopicFactory,
    key: bytes | None,
) -> None:
    """Of batches without keys of their own."""
    records = sent(properties, path_of, RecordTarget(topic=topic(), key=key), batch([b"1", b"2"]))

    assert [record.key for record in records] == [key, key]


@pytest.mark.parts
@pytest.mark.parametrize("partitioner", [one.value for one in Partitioner])
def test_a_constant_key_goes_where_librdkafka_would_send_it(
    properties: dict[str, str], topic: TopicFactory, partitioner: str
) -> None:
    """With each partitioner, and no key or an empty one left to it."""
    name, keys = topic(partitions=7), [b"key-%d" % number for number in range(30)]
    producer = Producer({**properties, "enable.idempotence": True, "partitioner": partitioner})
    path, ordinary_path = buffer(producer, partitioner, partitions=7), ordinary(producer)
    for number, key in enumerate([*keys, b"", None]):
        path.send(RecordTarget(topic=name, key=key), batch([b"buffer %d" % number]), 0, 1)
        ordinary_path.send(RecordTarget(topic=name, key=key), batch([b"ordinary %d" % number]), 0, 1)
    assert producer.flush(60) == 0
    path.close()

    records = read_committed(name)
    assert len(records) == 2 * len(keys) + 4
    if partitioner != "random":
        by_value = {record.value: record.partition for record in records}
        for number in range(len(keys)):
            assert by_value[b"buffer %d" % number] == by_value[b"ordinary %d" % number]


@pytest.mark.parts
def test_a_full_queue_keeps_every_row_and_their_order(
    properties: dict[str, str], path_of: Callable[[Producer], ProducePath], topic: TopicFactory
) -> None:
    """Forty times what the queue holds, and more than one array of messages."""
    values = [b"%d" % number for number in range(40_000)]

    records = sent(
        properties, path_of, RecordTarget(topic=topic(), partition=0), batch(values), batch(values[:7])
    )

    assert [record.value for record in records] == values + values[:7]


@pytest.mark.parts
def test_a_full_queue_keeps_order_headers_and_timestamps(
    properties: dict[str, str], path_of: Callable[[Producer], ProducePath], topic: TopicFactory
) -> None:
    """A row that met a full queue is sent before the one behind it, with what is its own."""
    count = 5_000
    values: list[bytes | None] = [b"%d" % number for number in range(count)]
    headers = tuple(((f"h{number % 3}", b"%d" % number),) * (number % 4) for number in range(count))
    stamps = list(range(1, count + 1))

    records = sent(
        properties,
        path_of,
        RecordTarget(topic=topic(), partition=0),
        batch(values, headers=headers, timestamps=stamps),
    )

    assert [record.value for record in records] == values
    assert [record.headers for record in records] == list(headers)
    assert [record.timestamp_ms for record in records] == stamps


@pytest.mark.parts
def test_a_headers_name_with_a_nul_goes_the_ordinary_way(
    properties: dict[str, str], topic: TopicFactory
) -> None:
    """Both paths do the same with it."""
    rows = batch([b"1"], headers=((("a\0b", b"value"),),))

    arrived = [
        [record.headers for record in sent(properties, path, RecordTarget(topic=topic(), partition=0), rows)]
        for path in PATHS.values()
    ]

    assert arrived[0] == arrived[1]


@pytest.mark.parts
def test_only_the_rows_asked_for_are_sent(
    properties: dict[str, str], path_of: Callable[[Producer], ProducePath], topic: TopicFactory
) -> None:
    """A stretch of a batch, as transactions cut it."""
    target = RecordTarget(topic=topic(), partition=0)
    producer = Producer(properties)
    path = path_of(producer)

    path.send(target, batch([b"%d" % n for n in range(10)]), 3, 7)
    path.send(target, batch([b"x"]), 1, 1)
    producer.flush(60)

    assert [record.value for record in read_committed(target.topic)] == [b"3", b"4", b"5", b"6"]
    path.close()


@pytest.mark.parts
def test_headers_and_timestamps_arrive_on_either_path(
    properties: dict[str, str], path_of: Callable[[Producer], ProducePath], topic: TopicFactory
) -> None:
    """Constant ones first, a row's own after them; a negative timestamp is the time of producing."""
    target = RecordTarget(topic=topic(), partition=0, headers=(("constant", b"c"),), timestamp_ms=5)
    own = ((("row", b"1"),), (("row", None),))

    records = sent(properties, path_of, target, batch([b"1", b"2"], headers=own, timestamps=[7, -1]))

    assert [record.headers for record in records] == [(("constant", b"c"), *headers) for headers in own]
    assert records[0].timestamp_ms == 7
    assert records[1].timestamp_ms > 1_700_000_000_000


@pytest.mark.parts
def test_nothing_of_the_rows_before_is_in_those_after_them(
    properties: dict[str, str], topic: TopicFactory, path_of: Callable[[Producer], ProducePath]
) -> None:
    """Arguments are written where those of other rows were: a key, a time or headers must not stay."""
    target = RecordTarget(topic=topic(), partition=0)
    full = batch([b"a", b"b"], keys=[b"k", b"l"], headers=((("h", b"1"),), (("h", b"2"),)), timestamps=[7, 8])
    bare = batch([b"c", None], headers=((("h", b"3"),), ()))
    records = sent(properties, path_of, target, full, bare)
    assert [record.key for record in records] == [b"k", b"l", None, None]
    assert [record.value for record in records] == [b"a", b"b", b"c", None]
    assert [len(record.headers) for record in records] == [1, 1, 1, 0]
    assert [record.timestamp_ms in {7, 8} for record in records] == [True, True, False, False]


@pytest.mark.parts
def test_both_paths_choose_the_same_partitions(properties: dict[str, str], topic: TopicFactory) -> None:
    """As Java's clients do: murmur2 of the key."""
    keys = [b"key-%d" % number for number in range(200)]
    rows = batch(keys, keys)

    placed = [
        {record.key: record.partition for record in sent(properties, path, RecordTarget(topic=name), rows)}
        for path in PATHS.values()
        for name in [topic(partitions=7)]
    ]

    assert placed[0] == placed[1]
    assert len(set(placed[0].values())) == 7


@pytest.mark.parts
def test_a_record_above_the_producers_limit_is_refused(
    properties: dict[str, str], path_of: Callable[[Producer], ProducePath], topic: TopicFactory
) -> None:
    """Measured by librdkafka itself, before it is sent; the rest of the batch is not forgotten silently."""
    producer = Producer({**properties, "message.max.bytes": "2000"})
    path = path_of(producer)
    name = topic()

    with pytest.raises(RecordRefused, match=name):
        path.send(RecordTarget(topic=name), batch([b"1", b"x" * 3000, b"2"]), 0, 3)

    producer.purge()
    producer.flush(60)
    path.close()


_BYTES = st.none() | st.binary(max_size=20)
_HEADERS = st.lists(st.tuples(st.sampled_from(["", "a", "ä"]), _BYTES), max_size=3).map(tuple)
# A broker refuses times to come.
_STAMPS = st.integers(1, 1_750_000_000_000)


@pytest.mark.parts
@pytest.mark.parametrize("what", ["plain", "timestamps", "headers", "both"])
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(_BYTES, _BYTES, _HEADERS, _STAMPS), min_size=1, max_size=50),
    constant=_HEADERS,
)
def test_any_rows_are_the_same_on_both_paths(
    properties: dict[str, str],
    topic: TopicFactory,
    what: str,
    rows: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]],
    constant: tuple[tuple[str, bytes | None], ...],
) -> None:
    """Byte for byte, with and without headers and timestamps."""
    has_headers, has_stamps = what in {"headers", "both"}, what in {"timestamps", "both"}
    given_rows = batch(
        [value for value, _, _, _ in rows],
        [key for _, key, _, _ in rows],
        headers=tuple(headers for _, _, headers, _ in rows) if has_headers else None,
        timestamps=[stamp for _, _, _, stamp in rows] if has_stamps else None,
    )
    constant = constant if has_headers else ()

    name = topic(partitions=len(PATHS), config={"retention.ms": "-1"})
    for partition, path in enumerate(PATHS.values()):
        target = RecordTarget(topic=name, partition=partition, headers=constant)
        arrived = [
            record for record in sent(properties, path, target, given_rows) if record.partition == partition
        ]

        assert [(record.value, record.key) for record in arrived] == [row[:2] for row in rows]
        if has_headers:
            assert [record.headers for record in arrived] == [(*constant, *row[2]) for row in rows]
        if has_stamps:
            assert [record.timestamp_ms for record in arrived] == [row[3] for row in rows]


@pytest.fixture
def idle() -> Iterator[Producer]:
    """A producer that connects to nobody."""
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    yield producer
    producer.purge()


def test_the_handle_is_the_producers_own(idle: Producer) -> None:
    """Found, proven by librdkafka, and another one for another producer."""
    other = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    loaded = library()
    assert loaded is not None

    handles = [handle_of(idle), handle_of(other)]

    assert None not in handles
    assert handles[0] != handles[1]
    assert [loaded.rd_kafka_opaque(handle) for handle in handles] == [id(idle), id(other)]


def test_what_is_no_producer_gives_no_handle() -> None:
    """A wrong place in memory is noticed without touching it."""

    class Other:
        """Something whose memory holds no producer."""

    assert handle_of(Other()) is None  # type: ignore[arg-type]  # on purpose


def test_what_is_configured_wins_in_either_spelling() -> None:
    """Ours are defaults."""
    found = producer_properties({"compression.codec": "none", "linger.ms": "0", "client.id": "mine"})

    assert found["compression.codec"] == "none"
    assert "compression.type" not in found
    assert (found["linger.ms"], found["client.id"]) == ("0", "mine")
    assert found["batch.size"] == DEFAULTS["batch.size"]
