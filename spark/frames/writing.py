"""Rows of a query into objects of a layout, which become visible when their batch is committed.

Tasks send all parts of their objects and complete none. The commit of a batch writes which uploads are its
own, under a name that only the first attempt gets, and completes these: a batch that Spark repeats, after
whatever crash, completes what the first attempt has named, and gives its own uploads up.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import structlog
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructField, StructType

from headrace.model.errors import FrameRefused, HeadraceError
from headrace.model.sink_entries import SealedObject
from headrace.options import OPTIONS
from headrace.options.declarations.option import Group
from headrace.options.given import is_for
from headrace.options.vendor import Direction
from spark.frames.addresses import state_directory
from spark.frames.batch_splits import Shipped
from spark.frames.frame_completion import Completer, CompleterOfBatch, complete, complete_if_free, give_up
from spark.frames.frame_options import STATE_PATH, loaded, split_options
from spark.frames.log_store import LogStore, log_store
from spark.frames.refusals import in_a_sentence
from spark.frames.written_batches import (
    BatchRefused,
    RowsOf,
    WrittenBatch,
    WrittenBatches,
    last_of_each_name,
    merged,
    refuse_doubled_rows,
    refuse_shared_names,
)
from spark.sink.frame_records import (
    OUT_OF_ORDER,
    RowOrder,
    in_order,
    record_columns,
    records_of,
    refuse_another_type,
)
from spark.sink.frame_writer import FrameWriter
from spark.sink.sink_work import SinkTaskSettings, sink_task_settings

_LOG = structlog.get_logger(__name__)

_GROUPS: Final = frozenset({Group.S3, Group.SINK, Group.OUTPUT, Group.ROTATION, Group.UPLOADS, Group.RECORDS})
_ALSO: Final = frozenset({"file.name.template", "record.max.bytes"})
_WITH_BATCHES: Final = "objects close with their batch: the query's trigger, or rotate.span.ms, decides"
# They need the clock of a process that lives on, and stops.
_OF_A_PROCESS: Final = dict.fromkeys(
    ("rotate.age.ms", "rotate.age.from", "rotate.schedule.ms", "rotate.on.stop"), _WITH_BATCHES
)
# They need a position in Kafka, or that clock.
_NOT: Final = frozenset(
    {
        *_OF_A_PROCESS,
        "topics",
        "topics.regex",
        "topics.regex.internal",
        "open.object.max.age.ms",
        "takeover.indexes",
        "takeover.connector",
    }
)
WRITTEN: Final = tuple(
    one
    for one in OPTIONS
    if ((one.group in _GROUPS and is_for(one, Direction.SINK)) or one.name in _ALSO) and one.name not in _NOT
)
_BASE: Final = {
    "name": "frames",
    # No client is made for it.
    "bootstrap.servers": "unused:9092",
    "topics.regex": ".*",
}
_BY_TOPICS: Final = "list them in topics, or "
"""A fix of `headrace run` that a writer does not have: its rows name their topics."""
_NEEDED: Final = ("topic", "partition", "offset", "value")
_COLUMNS: Final = (*_NEEDED, "key", "headers", "timestamp", "timestampType")
_QUERY: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class WriteSettings(Shipped):
    """What the writer is given; small and picklable."""

    sink: SinkTaskSettings
    state_path: str | None
    overwrites: bool


def writing_settings(options: Mapping[str, str], schema: StructType, *, overwrites: bool) -> WriteSettings:
    """The settings of a write; FrameRefused with every problem, or for columns that are missing."""
    names = spelled(schema.fieldNames())
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise FrameRefused(
            f'The frame has no column {", ".join(missing)}: format("headrace") writes records, with topic, '
            "partition, offset, value, and key, timestamp and headers where they have them."
        )
    for name, field in zip(names, schema.fields, strict=True):
        refuse_another_type(StructField(name, field.dataType))
    warn_of_others(names)
    own, shared, problems = split_options(options, WRITTEN, instead=_OF_A_PROCESS)
    state_path = own.pop(STATE_PATH.name, None)
    problems += [f"{name}: is an option of reads; remove it" for name in own]
    try:
        # The first commit needs it, when all rows of a batch are sent.
        _ = None if state_path is None else state_directory(state_path)
    except FrameRefused as refused:
        problems.append(str(refused).removesuffix("."))
    try:
        settings = loaded({**_BASE, **shared}, problems)
    except FrameRefused as refused:
        raise FrameRefused(str(refused).replace(_BY_TOPICS, "")) from None
    assert settings.sink is not None, "topics.regex makes it one"
    return WriteSettings(sink_task_settings(settings, settings.sink), state_path, overwrites)


def spelled(names: Sequence[str]) -> list[str]:
    """The names of columns, as a record has them where they differ from its own by case alone.

    Spark has them for one name. Next to the record's own another spelling stays what it is. FrameRefused
    where two could be meant.
    """
    meant: dict[str, str] = {}
    for wanted in _COLUMNS:
        exact = [name for name in names if name == wanted]
        found = exact or [name for name in names if name.lower() == wanted.lower()]
        if len(found) > 1:
            raise FrameRefused(
                f"The frame has the columns {' and '.join(found)}, and a record has one {wanted}: drop or "
                "rename the others."
            )
        meant |= dict.fromkeys(found, wanted)
    return [meant.get(name, name) for name in names]


def warn_of_others(names: Sequence[str]) -> None:
    """Log which of these columns are none of a record, and are not written."""
    others = [name for name in names if name not in _COLUMNS]
    if others:
        _LOG.warning("columns_left_out", columns=others, detail="they are none of a record in Kafka")


@dataclass(frozen=True, slots=True)
class Sent(WriterCommitMessage):
    """What a task has sent: all parts of these objects, none of them completed."""

    query: str
    objects: tuple[SealedObject, ...]
    rows: tuple[RowsOf, ...]


class HeadraceWriter(DataSourceArrowWriter):
    """Writes a frame once. A failed job leaves no object; one that dies while it commits may leave some.

    So may one that is refused while it commits, as S3 or another program changes: its sentence names them.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._id = uuid.uuid4().hex

    @in_a_sentence
    def write(self, iterator: Iterator[Any]) -> Sent:
        """Send the rows of one task."""
        return _sent(self._settings, self._id, map(_recorded, iterator))

    @in_a_sentence
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Have all objects visible; FrameRefused where rows of a partition came to tasks in turn."""
        _refuse_overlaps(messages)
        found, replaced = last_of_each_name(objects_of(messages))
        refuse_shared_names(found)
        give_up(self._settings.sink, replaced)
        completer = Completer(self._settings.sink, found, overwrites=self._settings.overwrites)
        complete_if_free(completer, found)

    @in_a_sentence
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Give the uploads up."""
        give_up(self._settings.sink, objects_of(messages))


class HeadraceStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query, each once."""

    def __init__(self, settings: WriteSettings) -> None:
        if settings.state_path is None:
            raise FrameRefused(
                f"{STATE_PATH.name} is missing: the writer of a stream keeps there which objects a batch has."
            )
        if settings.overwrites:
            raise FrameRefused(
                'outputMode("complete") gives all rows of its result with each batch, and a batch is written '
                "next to those before it: use append, or write the result in foreachBatch, in the mode "
                "overwrite."
            )
        self._settings = settings

    @in_a_sentence
    def write(self, iterator: Iterator[Any]) -> Sent:
        """Send the rows of one task."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        return _sent(self._settings, query or "query", in_order(map(_recorded, iterator)))

    @in_a_sentence
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # PySpark's
        """Have the objects of the batch visible: those that its first commit has named."""
        query = _query_of(messages)
        if query is None:
            # Spark has a message at least: what has no rows, or no partitions, is written by a task, too.
            return
        found, _ = last_of_each_name(objects_of(messages))
        rows = rows_of(messages)
        try:
            refuse_doubled_rows(rows)
            refuse_shared_names(found)
        except FrameRefused:
            # No commit has named them, and none will.
            give_up(self._settings.sink, objects_of(messages))
            raise
        batches = WrittenBatches(self._store(), query)
        # Before a file names them: who finds it there, and its driver dead, knows of each what it was.
        batches.note_open(batchId, [one.id for one in found])
        try:
            own = batches.name(batchId, WrittenBatch(found, rows))
        except BatchRefused as refused:
            if refused.last is not None:
                last = CompleterOfBatch(self._settings.sink, found, batches, refused.number)
                complete(last, refused.last.objects)
            raise FrameRefused(str(refused)) from None
        self._give_up_others(messages, own)
        complete(CompleterOfBatch(self._settings.sink, found, batches, batchId), own.objects)
        batches.forget_before(batchId)

    @in_a_sentence
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # PySpark's
        """Give up the uploads that no commit can name any more, as one has named others.

        Without a name they stay for the bucket's lifecycle rule: the commit that failed may have named them
        in a request that has not arrived yet.
        """
        query = _query_of(messages)
        named = None if query is None else WrittenBatches(self._store(), query).named(batchId)
        if named is not None:
            self._give_up_others(messages, named)

    def _give_up_others(self, messages: Sequence[WriterCommitMessage | None], named: WrittenBatch) -> None:
        kept = {each.id for each in named.objects}
        give_up(self._settings.sink, [one for one in objects_of(messages) if one.id not in kept])

    def _store(self) -> LogStore:
        assert self._settings.state_path is not None, "a stream without it is refused"
        return log_store(self._settings.state_path, self._settings.sink.s3)


def objects_of(messages: Iterable[WriterCommitMessage | None]) -> Sequence[SealedObject]:
    """What the tasks have sent; a task that failed has no message."""
    return [one for message in messages if isinstance(message, Sent) for one in message.objects]


def rows_of(messages: Iterable[WriterCommitMessage | None]) -> tuple[RowsOf, ...]:
    """What the tasks were given, by topic-partition."""
    each = merged(one for message in messages if isinstance(message, Sent) for one in message.rows)
    return tuple(each[place] for place in sorted(each))


def _refuse_overlaps(messages: Iterable[WriterCommitMessage | None]) -> None:
    each = sorted(one for message in messages if isinstance(message, Sent) for one in message.rows)
    for before, after in pairwise(each):
        if before.place == after.place and after.first <= before.last:
            raise FrameRefused(OUT_OF_ORDER.format(*before.place))


def _query_of(messages: Iterable[WriterCommitMessage | None]) -> str | None:
    return next((message.query for message in messages if isinstance(message, Sent)), None)


# -- in a task ---------------------------------------------------------------------------------------------


def _recorded(batch: Any) -> Any:
    """The batch with its columns spelled as a record's."""
    return batch.rename_columns(spelled(batch.schema.names))


def _sent(settings: WriteSettings, query: str, batches: Iterable[Any]) -> Sent:
    """Send the rows, in the order of their offsets, as far as they are completed by a commit."""
    writer = FrameWriter(settings.sink, is_direct=False)
    order = RowOrder()
    places: dict[tuple[str, int], RowsOf] = {}
    try:
        for batch in batches:
            for records in records_of(record_columns(batch)):
                place = (records.topic, records.partition)
                before = places.get(place)
                order.refuse_disorder(records)
                own = RowsOf(*place, records.first_offset, records.last_offset, len(records))
                places[place] = own if before is None else before.with_more(own)
                writer.add(records)
        writer.finish()
    except HeadraceError as error:
        give_up(settings.sink, writer.sealed)
        raise error if isinstance(error, FrameRefused) else FrameRefused(str(error)) from error
    finally:
        writer.close()
    return Sent(query, tuple(writer.sealed), tuple(places.values()))
