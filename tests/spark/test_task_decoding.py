"""Which objects may be left in their middle to make room for others."""

import gzip
from typing import Any, Final

import pytest

from headrace.kafka.data_topics import OutputTopic
from headrace.kafka.producer.topic_limits import TopicLimits, TopicLookup
from headrace.model.errors import ObjectCorrupt
from headrace.model.objects import ObjectId, Route, S3Object, SideObject
from headrace.model.slot_protocol import Split
from headrace.options.choices import InputFormat
from spark.source.decoding import Decoding
from tests.headrace.formats.avro_files import file_of
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with
from tests.support.glue_server import served

AVRO = file_of("long", [1, 2, 3])


class NoBrokers:
    """Nobody is asked here."""

    def get(self, name: str, /) -> OutputTopic:
        """A question that must not come."""
        raise AssertionError(name)

    def ask(self, name: str, /) -> OutputTopic:
        """The same: nothing is remembered."""
        return self.get(name)


@pytest.mark.parametrize(
    ("input_format", "content", "can_resume"),
    [
        (InputFormat.JSONL, b"1\n", True),
        (InputFormat.JSONL, gzip.compress(b"1\n", mtime=0), False),
        (InputFormat.BYTES, b"1\n", True),
        (InputFormat.BYTES, gzip.compress(b"1\n", mtime=0), False),
        (InputFormat.AVRO, AVRO, True),
        (InputFormat.AVRO, gzip.compress(AVRO, mtime=0), False),
        (InputFormat.PARQUET, b"PAR1", True),
        (InputFormat.JSON, b"[1]", True),
        (InputFormat.JSON, gzip.compress(b"[1]", mtime=0), False),
        (InputFormat.CSV, b"a\n1\n", True),
        (InputFormat.TEXT, gzip.compress(b"a\n", mtime=0), False),
        (InputFormat.AUTO, b"PAR1", True),
        (InputFormat.AUTO, gzip.compress(b"1\n", mtime=0), False),
    ],
)
def test_a_stream_that_cannot_seek_goes_on(
    input_format: InputFormat, content: bytes, *, can_resume: bool
) -> None:
    """To come back to its middle it would be read from its start, each time further."""
    decoding = Decoding(decode_options(input_format).format, TopicLimits(NoBrokers()))

    assert decoding.can_resume(MemorySource(content)) is can_resume


class _Topics:
    """Topics with limits of their own."""

    def __init__(self, **limits: int) -> None:
        self._limits = limits

    def get(self, name: str, /) -> OutputTopic:
        """A topic."""
        return OutputTopic(name=name, partitions=1, max_record_bytes=self._limits[name.replace("-", "_")])

    def ask(self, name: str, /) -> OutputTopic:
        """The same: nothing is remembered."""
        return self.get(name)


@pytest.mark.parametrize(
    ("limits", "are_good"),
    [
        ({"orders": 20, "new_orders": 1000}, True),
        ({"orders": 1000, "new_orders": 20}, False),
    ],
)
def test_the_limit_of_a_row_is_that_of_the_topic_it_comes_to(
    limits: dict[str, int], *, are_good: bool
) -> None:
    """A router sends it elsewhere: the topic that it had before may be smaller, or a stranger's."""
    settings = load_with(
        {
            "transforms": "r",
            "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.r.regex": "(.*)",
            "transforms.r.replacement": "new-$1",
        }
    )
    decoding = Decoding(settings.format, TopicLimits(_Topics(**limits)), settings.transforms)
    row = b'{"text": "longer than twenty bytes"}'
    found = S3Object(id=ObjectId("bucket", "a", "e"), size=len(row), last_modified_ms=0)
    source: Any = MemorySource(row + b"\n")
    batches = list(decoding.decode(source, Split(object=found, route=Route(topic="orders"))))

    assert {batch.topic for batch in batches} == {"new-orders"}
    assert [bool(batch.bad) for batch in batches] == [not are_good]


_KAFKA: Final = "org.apache.kafka.connect.transforms."
_FILTER: Final = {
    "transforms": "t,r",
    "transforms.r.type": f"{_KAFKA}RegexRouter",
    "transforms.r.regex": "(.*)",
    "transforms.r.replacement": "new-$1",
    "transforms.t.type": f"{_KAFKA}Filter",
    "transforms.t.predicate": "all",
    "predicates": "all",
    "predicates.all.type": f"{_KAFKA}predicates.TopicNameMatches",
    "predicates.all.pattern": ".*",
}


def test_a_topic_without_a_record_for_it_is_not_asked_for() -> None:
    """Before a router it may be anybody's."""
    found = _decoded(b'{"id": 1}\nno JSON\n', NoBrokers(), **_FILTER)
    assert found == ([], ["not_json"])


_LARGE: Final = b'{"id":1,"picture":"' + b"x" * 100 + b'"}\n{"id":2}\n'


@pytest.mark.parametrize(
    ("step", "values", "reasons"),
    [
        ({"type": "ReplaceField$Value", "exclude": "picture"}, [b'{"id":1}', b'{"id":2}'], []),
        ({"type": "ExtractField$Value", "field": "id"}, [b"1", b"2"], []),
        ({"type": "Filter", "predicate": "all"}, [], []),
        ({"type": "MaskField$Value", "fields": "id"}, [b'{"id":0}'], ["too_large"]),
        ({"type": "HoistField$Value", "field": "r" * 50}, [], ["too_large", "too_large"]),
    ],
)
def test_the_size_of_a_record_is_that_behind_the_transforms(
    step: dict[str, str], values: list[bytes], reasons: list[str]
) -> None:
    """The topic's limit is one of records; what a row was before is nothing to it."""
    options = {name: value for name, value in _FILTER.items() if name.startswith("predicates")}
    options |= {f"transforms.t.{name}": value for name, value in step.items()}
    options |= {"transforms": "t", "transforms.t.type": _KAFKA + step["type"]}
    assert _decoded(_LARGE, _Topics(orders=50), **options) == (values, reasons)


def _decoded(content: bytes, topics: TopicLookup, **options: str) -> tuple[list[bytes | None], list[str]]:
    """The values of the records of an object for `orders`, and the reasons of its bad rows."""
    settings = load_with({"input.format": "jsonl", **options})
    decoding = Decoding(settings.format, TopicLimits(topics), settings.transforms)
    found = S3Object(id=ObjectId("bucket", "a", "e"), size=len(content), last_modified_ms=0)
    source: Any = MemorySource(content)
    batches = list(decoding.decode(source, Split(object=found, route=Route(topic="orders"))))
    return [each.values.get(row) for each in batches for row in range(len(each))], [
        bad.reason for each in batches for bad in each.bad
    ]


_ARCHIVES: Final = [
    ("confluent", "topics/orders/partition=0/orders+0+0000000000.avro"),
    ("confluent", "topics/orders/partition=0/orders+0+0000000000.snappy.parquet"),
    ("headrace", "orders/0/00000000000000000042.headrace.avro"),
]


@pytest.mark.parametrize("input_format", list(InputFormat))
def test_an_object_of_no_bytes_has_no_rows(input_format: InputFormat) -> None:
    """A `_SUCCESS` next to Parquet was skipped, and quarantined as damaged by the replay of its folder."""
    assert _of_nothing(Route(topic="t"), "out/_SUCCESS", **{"input.format": str(input_format)}) == 0


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.jsonl"])
@pytest.mark.parametrize("packing", ["zip", "tar", "auto"])
def test_a_packed_object_of_no_bytes_has_no_rows(packing: str, name: str) -> None:
    """It is no archive of whatever kind."""
    options = {"input.format": "jsonl", "input.archive": packing}
    assert _of_nothing(Route(topic="t"), name, **options) == 0


@pytest.mark.parametrize(("layout", "key"), _ARCHIVES)
def test_an_archived_object_of_no_bytes_has_no_rows(layout: str, key: str) -> None:
    """Of one that is no row: Aiven's are."""
    route = Route(topic="orders", partition=0, start_offset=0)
    assert _of_nothing(route, key, **_restoring(layout)) == 0


def test_an_object_of_no_bytes_that_is_a_row_has_one() -> None:
    """A tombstone of Aiven's connector."""
    route = Route(topic="orders", partition=0, start_offset=0, may_be_empty=True)
    assert _of_nothing(route, "orders-0-0", **_restoring("aiven")) == 1


def test_with_others_an_object_of_no_bytes_is_compared() -> None:
    """Keys of rows that are not there are told as damage; nothing of them is skipped in silence."""
    side = SideObject("topics/orders/partition=0/orders+0+0000000000.keys.avro", "k", len(AVRO), None)
    route = Route(topic="orders", partition=0, start_offset=0)
    with pytest.raises(ObjectCorrupt):
        _of_nothing(route, _ARCHIVES[0][1], side, **_restoring("confluent"))


def _restoring(layout: str) -> dict[str, Any]:
    left_out = dict.fromkeys(("file.name.template", "input.format", "topic"))
    return {**left_out, "input.layout": layout}


def _of_nothing(route: Route, key: str, *sides: SideObject, **options: Any) -> int:
    """How many rows a task finds in zero bytes."""
    settings = load_with(options)
    decoding = Decoding(settings.format, TopicLimits(_AnyTopic()), settings.transforms)
    found = S3Object(id=ObjectId("bucket", key, "e"), size=0, last_modified_ms=0)
    source: Any = MemorySource(b"", name=f"s3://bucket/{key}")
    source.beside = {side.key: MemorySource(AVRO) for side in sides}
    return sum(map(len, decoding.decode(source, Split(object=found, route=route, sides=sides))))


class _AnyTopic:
    """Topics of one limit."""

    def get(self, name: str, /) -> OutputTopic:
        """A topic."""
        return OutputTopic(name=name, partitions=1, max_record_bytes=1 << 20)

    def ask(self, name: str, /) -> OutputTopic:
        """The same: nothing is remembered."""
        return self.get(name)


def test_a_task_writes_by_the_registry_of_its_settings() -> None:
    """AWS Glue's, whose client is the task's own."""
    with served() as (glue, url):
        number = glue.add("AVRO", '"long"', name="default-registry/rows")
        settings = load_with(
            {
                "input.format": "avro",
                "value.converter": "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter",
                "aws.glue.endpoint": url,
                "aws.access.key.id": "AKIA",
                "aws.secret.access.key": "shh",
            }
        )
        decoding = Decoding(settings.format, TopicLimits(_AnyTopic()))
        found = S3Object(id=ObjectId("bucket", "a", "e"), size=len(AVRO), last_modified_ms=0)
        source: Any = MemorySource(AVRO)
        batches = list(decoding.decode(source, Split(object=found, route=Route(topic="rows"))))

    values = [batch.values.get(row) for batch in batches for row in range(len(batch.values))]
    assert values == [b"\x03\x00" + number.bytes + bytes([2 * each]) for each in (1, 2, 3)]
