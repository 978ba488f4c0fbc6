"""`headrace explain` for a sink: the key of the object that a record would be in."""

import base64
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from headrace.conversion.sink_records import sink_records
from headrace.model.clock import wall_ms
from headrace.model.columns import TIMESTAMP_APPENDED, TIMESTAMP_CREATED, KafkaRecords, column_of
from headrace.model.errors import InvalidConfiguration
from headrace.model.text_formatting import did_you_mean, printable, similar
from headrace.options import Settings
from headrace.options.topic_expressions import TopicSelection
from ingest.checks.probes.sample_object import read_record
from ingest.cli.cli_options import Report
from spark.sink.object_keys import ObjectFacts
from spark.sink.object_shape import ObjectShapes

_EXAMPLE: Final = '{"topic":"orders","partition":0,"offset":42,"timestamp":1767268800000,"key":"k","value":1}'
_NULL: Final = b"null"
_MAX_SHOWN: Final = 20

# What a broker has of these numbers; -1 is the timestamp of a record that has none.
_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 2)]
_Timestamp = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    value: str | None = None
    value_base64: str | None = None


class _Sample(msgspec.Struct, forbid_unknown_fields=True):
    topic: str | None = None
    partition: _Partition = 0
    offset: _Offset = 0
    timestamp: _Timestamp | None = None
    timestamp_type: Literal["append"] | None = None
    key: str | None = None
    key_base64: str | None = None
    value: msgspec.Raw = msgspec.Raw(_NULL)
    value_base64: str | None = None
    headers: list[_Header] = []

    def __post_init__(self) -> None:
        """ValueError for a part that is there twice: which of them the record had is not known."""
        twice = [
            self.key is not None and self.key_base64 is not None,
            bytes(self.value) != _NULL and self.value_base64 is not None,
            *(each.value is not None and each.value_base64 is not None for each in self.headers),
        ]
        if any(twice):
            raise ValueError("a part is there twice, as itself and as base64")


_OTHER_TOPIC: Final = "other_topic"
_IGNORED: Final = "ignored"
_DROPPED: Final = "dropped"
# Why a record is in no object though nothing is wrong with it.
_LEFT_OUT: Final = frozenset({_OTHER_TOPIC, _IGNORED, _DROPPED})

_SAMPLE: Final = msgspec.json.Decoder(_Sample)


class Explained(msgspec.Struct, frozen=True):
    """What becomes of one record: the key of its object, or why it has none."""

    topic: str
    partition: int
    offset: int
    key: str | None = None
    side_keys: tuple[str, ...] = ()
    reason: str | None = None
    message: str | None = None


def sink_explain(
    settings: Settings, samples: Iterator[str], place: tuple[str, int, int] | None, *, as_json: bool
) -> None:
    """Print the key of each sample record, or of the record at a topic, partition and offset. Blocks.

    InvalidConfiguration, once the others are answered, for texts that are no records.
    """
    if place is not None:
        _show(settings, read_record(settings, *place), as_json=as_json)
    problems: list[str] = []
    count = 0
    for text in samples:
        try:
            record = sample_record(settings, text)
        except InvalidConfiguration as error:
            count += 1
            problems += [str(error)] if count <= _MAX_SHOWN else []
        else:
            _show(settings, record, as_json=as_json)
    if count > _MAX_SHOWN:
        problems.append(f"{count - _MAX_SHOWN:,} more are no records.")
    if problems:
        raise InvalidConfiguration("\n".join(problems))


def _show(settings: Settings, record: KafkaRecords, *, as_json: bool) -> None:
    explained = _of_other_topic(settings, record)
    if explained is None:
        explained = RecordExplainer(settings.for_topic(record.topic)).explained(record)
    Report(shape_of(explained), _lines(explained)).show(as_json=as_json)


def _of_other_topic(settings: Settings, record: KafkaRecords) -> Explained | None:
    """Why no record of its topic is archived; None where the sink archives the topic."""
    topics, topic = _topics(settings), record.topic
    if topics.has(topic):
        return None
    if topics.pattern is not None and topics.is_apart(topic):
        internal = "no topics of Kafka's own" if topics.with_internal else "no internal topics (__..)"
        meant = f"topics.regex means {internal}, and not the sink's own ledger and dead letters"
    else:
        meant = did_you_mean(similar(topic, topics.names), otherwise="nothing of it is archived")
    return Explained(
        topic=topic,
        partition=record.partition,
        offset=record.first_offset,
        reason=_OTHER_TOPIC,
        message=f"{topic} is not one of the sink's topics (topics, topics.regex): {meant}",
    )


def _topics(settings: Settings) -> TopicSelection:
    assert settings.sink is not None, "a source reads no topics"
    return settings.sink.topics


def shape_of(explained: Explained) -> dict[str, Any]:
    """The JSON shape (docs/commands.md)."""
    shape: dict[str, Any] = msgspec.to_builtins(explained)
    return shape


def sample_record(settings: Settings, text: str) -> KafkaRecords:
    """The record that a text describes, in the form of the headrace layout; else InvalidConfiguration."""
    try:
        sample = _SAMPLE.decode(text)
        key, value = _bytes(sample.key, sample.key_base64), _value(sample)
        headers = tuple((each.key, _bytes(each.value, each.value_base64)) for each in sample.headers)
    # Of base64, and of text that is no Unicode, ValueErrors of several kinds.
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidConfiguration(
            f"{printable(text)!r} is no record ({error}). Give one as an object of JSON, such as {_EXAMPLE}"
        ) from error
    is_appended = sample.timestamp_type is not None
    return KafkaRecords(
        topic=sample.topic or _only_topic(settings),
        partition=sample.partition,
        offsets=np.array([sample.offset], np.int64),
        timestamps_ms=np.array([wall_ms() if sample.timestamp is None else sample.timestamp], np.int64),
        timestamp_types=np.array([TIMESTAMP_APPENDED if is_appended else TIMESTAMP_CREATED], np.int64),
        keys=column_of([key]),
        values=column_of([value]),
        headers=[headers] if headers else None,
    )


class RecordExplainer:
    """Takes a record the way that `run` takes it, as far as its name."""

    def __init__(self, settings: Settings) -> None:
        assert settings.sink is not None, "a source names no objects"
        self._converter = sink_records(settings.sink)
        self._shapes = ObjectShapes(settings.sink)

    def explained(self, record: KafkaRecords) -> Explained:
        """The key of the object that begins with this record."""
        place: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.first_offset,
        }
        conversion = self._converter.convert(record)
        faults = list(conversion.faults)
        for run in conversion.runs:
            groups = self._shapes.split(run)
            faults += groups.faults
            for part in groups.parts:
                shape, (names, group) = self._shapes.of(part.group), self._shapes.names(part.group)
                facts = ObjectFacts(
                    topic=run.records.topic,
                    partition=record.partition,
                    group=group,
                    first_offset=record.first_offset,
                    last_offset=record.last_offset,
                    opened_ms=wall_ms(),
                    batch_offset=record.first_offset,
                    first_time_ms=int(record.timestamps_ms[0]),
                    least_timestamp_ms=int(record.timestamps_ms[0]),
                    greatest_timestamp_ms=int(record.timestamps_ms[0]),
                )
                name = names.key(facts)
                beside, main = shape.roles[:-1], shape.roles[-1]
                return Explained(
                    **place,
                    key=shape.key(main, name),
                    side_keys=tuple(shape.key(role, name) for role in beside),
                )
        if faults:
            return Explained(**place, reason=faults[0].reason, message=faults[0].message)
        if conversion.ignored:
            why = "its value is null, and behavior.on.null.values is ignore"
            return Explained(**place, reason=_IGNORED, message=why)
        return Explained(**place, reason=_DROPPED, message="a transform drops it")


def _bytes(text: str | None, encoded: str | None) -> bytes | None:
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return None if text is None else text.encode()


def _value(sample: _Sample) -> bytes | None:
    if sample.value_base64 is not None:
        return base64.b64decode(sample.value_base64, validate=True)
    value = bytes(sample.value)
    return None if value == _NULL else value


def _only_topic(settings: Settings) -> str:
    names = _topics(settings).names
    if len(names) != 1:
        raise InvalidConfiguration(f"The sink has several topics: name the record's, such as {_EXAMPLE}")
    return names[0]


def _lines(explained: Explained) -> Iterator[str]:
    place = f"{printable(explained.topic)}-{explained.partition} offset {explained.offset}"
    if explained.key is not None:
        yield f"{place}: {printable(explained.key)}"
        yield from (f"{place}: next to it {printable(key)}" for key in explained.side_keys)
    else:
        what = "not archived" if explained.reason in _LEFT_OUT else "a bad record"
        yield f"{place}: {what} ({explained.reason}): {printable(explained.message or '')}"
