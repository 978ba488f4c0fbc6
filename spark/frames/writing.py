"""Rows of a query into objects of a layout, which become visible when their batch is committed.

Tasks send all parts of their objects and complete none. The commit of a batch writes which uploads are its
own, under a name that only the first attempt gets, and completes these: a batch that Spark repeats, after
whatever crash, completes what the first attempt has named, and gives its own uploads up.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Final

import structlog
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.model.clock import wall_ms
from headrace.model.errors import FrameRefused, HeadraceError
from headrace.model.sink_entries import SealedObject, Upload, UploadAge
from headrace.options import OPTIONS
from headrace.options.declarations.option import Group
from headrace.s3.completion import CompletionState
from headrace.s3.s3_calls import least_upload_expiry_ms
from headrace.s3.upload_calls import UploadCalls, new_upload_calls
from spark.frames.batch_splits import Shipped
from spark.frames.frame_options import STATE_PATH, loaded, split_options
from spark.frames.log_store import LogStore, log_store
from spark.frames.offset_order import in_order
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
from spark.sink.frame_writer import FrameWriter, record_columns, records_of, refuse_another_type
from spark.sink.row_order import OUT_OF_ORDER, RowOrder
from spark.sink.sink_work import SinkTaskSettings, sink_task_settings

_LOG = structlog.get_logger(__name__)

_GROUPS: Final = frozenset({Group.S3, Group.SINK, Group.OUTPUT, Group.ROTATION, Group.UPLOADS})
_ALSO: Final = frozenset(
    {
        "file.name.template",
        "file.compression.type",
        "key.converter",
        "key.converter.schemas.enable",
        "value.converter",
        "value.converter.schemas.enable",
        "json.format",
        "csv.delimiter",
        "csv.quote",
        "csv.header",
        "record.max.bytes",
    }
)
# They need a position in Kafka, or the clock of a process that lives on.
_NOT: Final = frozenset(
    {
        "topics",
        "topics.regex",
        "rotate.age.ms",
        "rotate.schedule.ms",
        "open.object.max.age.ms",
        "takeover.indexes",
        "takeover.connector",
    }
)
WRITTEN: Final = tuple(
    one for one in OPTIONS if (one.group in _GROUPS or one.name in _ALSO) and one.name not in _NOT
)
_BASE: Final = {
    "name": "frames",
    # No client is made for it.
    "bootstrap.servers": "unused:9092",
    "topics.regex": ".*",
}
_NEEDED: Final = ("topic", "partition", "offset", "value")
_COLUMNS: Final = frozenset({*_NEEDED, "key", "headers", "timestamp", "timestampType"})
_COMPLETERS: Final = 8
_QUERY: Final = "sql.streaming.queryId"
_ENDED: Final = (
    "its upload is gone, and is old enough for the bucket's lifecycle rule to have ended it: see whether the "
    "object was there once; if not, remove the objects of its batch that are there, and then {file}, and the "
    "batch is written again"
)
_ENDED_BY_ANOTHER: Final = (
    "another program has ended its upload, or has taken the object away while its batch was committed: if it "
    "was there once, remove {note} and start the query again; if not, remove the objects of its batch that "
    "are there, and then {file}, and the batch is written again"
)
_FIXES: Final[Mapping[CompletionState, str]] = {
    # What a batch has is written down, its names included.
    CompletionState.NAME_TAKEN: (
        "another object has the name: move that object away, and start the query again"
    ),
    CompletionState.SUPERSEDED: _ENDED,
    CompletionState.UPLOAD_MISSING: _ENDED,
    CompletionState.PARTS_DIFFER: "the parts of its upload are not those that were sent",
    CompletionState.UNPROVEN: "S3 forbids to ask what is there: allow s3:GetObject and s3:ListBucket",
}

_FIXES_AT_ONCE: Final[Mapping[CompletionState, str]] = {
    **_FIXES,
    CompletionState.NAME_TAKEN: (
        "another object has the name: write under another prefix or file.name.template"
    ),
    **dict.fromkeys(
        (CompletionState.SUPERSEDED, CompletionState.UPLOAD_MISSING),
        "its upload is gone, and is old enough for the bucket's lifecycle rule to have ended it: write the "
        "frame again",
    ),
}
"""Of a frame that is written once, of which nothing is written down."""

_ENDED_AT_ONCE: Final = "another program has ended its upload: write the frame again"


@dataclass(frozen=True, slots=True)
class WriteSettings(Shipped):
    """What the writer is given; small and picklable."""

    sink: SinkTaskSettings
    state_path: str | None
    overwrites: bool


def writing_settings(options: Mapping[str, str], schema: StructType, *, overwrites: bool) -> WriteSettings:
    """The settings of a write; FrameRefused with every problem, or for columns that are missing."""
    missing = [name for name in _NEEDED if name not in schema.fieldNames()]
    if missing:
        raise FrameRefused(
            f'The frame has no column {", ".join(missing)}: format("headrace") writes records, with topic, '
            "partition, offset, value, and key, timestamp and headers where they have them."
        )
    for field in schema.fields:
        refuse_another_type(field)
    others = [name for name in schema.fieldNames() if name not in _COLUMNS]
    if others:
        _LOG.warning("columns_left_out", columns=others, detail="they are none of a record in Kafka")
    own, shared, problems = split_options(options, WRITTEN)
    state_path = own.pop(STATE_PATH.name, None)
    problems += [f"{name}: is an option of reads; remove it" for name in own]
    settings = loaded({**_BASE, **shared}, problems)
    assert settings.sink is not None, "topics.regex makes it one"
    return WriteSettings(sink_task_settings(settings, settings.sink), state_path, overwrites)


@dataclass(frozen=True, slots=True)
class Sent(WriterCommitMessage):
    """What a task has sent: all parts of these objects, none of them completed."""

    query: str
    objects: tuple[SealedObject, ...]
    rows: tuple[RowsOf, ...]


class HeadraceWriter(DataSourceArrowWriter):
    """Writes a frame once. A failed job leaves no object; one that dies while it commits may leave some."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._id = uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> Sent:
        """Send the rows of one task."""
        return _sent(self._settings, self._id, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Have all objects visible; FrameRefused where rows of a partition came to tasks in turn."""
        _refuse_overlaps(messages)
        found, replaced = last_of_each_name(objects_of(messages))
        refuse_shared_names(found)
        _give_up(self._settings, replaced)
        _complete(_Completer(self._settings, found), found)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Give the uploads up."""
        _give_up(self._settings, objects_of(messages))


class HeadraceStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query, each once."""

    def __init__(self, settings: WriteSettings) -> None:
        if settings.state_path is None:
            raise FrameRefused(
                f"{STATE_PATH.name} is missing: the writer of a stream keeps there which objects a batch has."
            )
        self._settings = settings

    def write(self, iterator: Iterator[Any]) -> Sent:
        """Send the rows of one task."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        return _sent(self._settings, query or "query", in_order(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # PySpark's
        """Have the objects of the batch visible: those that its first commit has named."""
        query = _query_of(messages)
        if query is None:
            return
        found, _ = last_of_each_name(objects_of(messages))
        rows = rows_of(messages)
        try:
            refuse_doubled_rows(rows)
            refuse_shared_names(found)
        except FrameRefused:
            # No commit has named them, and none will.
            _give_up(self._settings, objects_of(messages))
            raise
        batches = WrittenBatches(self._store(), query)
        # Before a file names them: who finds it there, and its driver dead, knows of each what it was.
        batches.note_open(batchId, [one.id for one in found])
        try:
            own = batches.name(batchId, WrittenBatch(found, rows))
        except BatchRefused as refused:
            if refused.last is not None:
                last = _CompleterOfBatch(self._settings, found, batches, refused.number)
                _complete(last, refused.last.objects)
            raise FrameRefused(str(refused)) from None
        self._give_up_others(messages, own)
        _complete(_CompleterOfBatch(self._settings, found, batches, batchId), own.objects)
        batches.forget_before(batchId)

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
        _give_up(self._settings, [one for one in objects_of(messages) if one.id not in kept])

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
        _give_up(settings, writer.sealed)
        raise error if isinstance(error, FrameRefused) else FrameRefused(str(error)) from error
    finally:
        writer.close()
    return Sent(query, tuple(writer.sealed), tuple(places.values()))


# -- in the driver -----------------------------------------------------------------------------------------


def _uploads(settings: WriteSettings) -> UploadCalls:
    return new_upload_calls(settings.sink.s3, settings.sink.sink.upload)


def _complete(completer: "_Completer", objects: Sequence[SealedObject]) -> None:
    """Have these objects visible, side objects before their values; FrameRefused for those that cannot be."""
    if not objects:
        return
    try:
        try:
            with ThreadPoolExecutor(_COMPLETERS, thread_name_prefix="frame-completer") as pool:
                problems = [found for found in pool.map(completer.complete, objects) if found is not None]
        finally:
            # Also where another object could not be completed: the commit comes again.
            completer.note_left(objects)
    except HeadraceError as error:
        raise FrameRefused(f"The batch cannot be committed: {error}") from error
    if problems:
        more = f" {len(problems) - 1} more objects cannot be completed either." if len(problems) > 1 else ""
        raise FrameRefused(problems[0] + more)


class _Completer:
    """Completes the objects of a frame that is written at once, in several threads."""

    def __init__(self, settings: WriteSettings, sent: Iterable[SealedObject]) -> None:
        """`sent` are those whose uploads the tasks of this very attempt have sent: none is complete yet."""
        self._settings = settings
        self._sent = frozenset(one.id for one in sent)
        self._calls = _uploads(settings)
        # Asked once, and only where an object is gone; it may be of an earlier bucket of the query.
        self._expiry_ms = cache(
            lambda bucket, folder: least_upload_expiry_ms(
                replace(settings.sink.s3, bucket=bucket, prefix=folder)
            )
        )

    def complete(self, sealed: SealedObject) -> str | None:
        """Why the object cannot be made visible, None where it is or was."""
        for upload in sealed.uploads:
            done = self._calls.complete(
                sealed.bucket,
                upload,
                object_id=sealed.id,
                overwrites=sealed.overwrites or self._settings.overwrites,
            )
            if done.state is not CompletionState.COMPLETED:
                fix = self._fix(sealed, upload, done.state)
                if fix is not None:
                    return f"s3://{sealed.bucket}/{upload.key} cannot be completed: {fix}."
        return None

    def note_left(self, objects: Sequence[SealedObject]) -> None:
        """Write down which of these are not complete, where that is needed again."""

    def _fix(self, sealed: SealedObject, upload: Upload, state: CompletionState) -> str | None:
        """What is to be done about an object that is not there; None where it was."""
        if state not in {CompletionState.UPLOAD_MISSING, CompletionState.SUPERSEDED}:
            return self._fix_of(state)
        age = UploadAge(
            upload_ms=wall_ms() - upload.started_ms,
            expiry_ms=self._expiry_ms(sealed.bucket, upload.key[: upload.key.rfind("/") + 1]),
        )
        if age.may_be_expired:
            return self._fix_of(state)
        if self._is_ended(sealed):
            return self._fix_of_ended()
        # A commit before this one has completed it: what it had left open is noted.
        _LOG.warning("object_taken_away", key=upload.key, detail="it was complete, and is not there any more")
        return None

    def _is_ended(self, sealed: SealedObject) -> bool:
        """Whether its upload was never completed; it was by an earlier commit, where there was one."""
        return sealed.id in self._sent

    def _fix_of(self, state: CompletionState) -> str:
        return _FIXES_AT_ONCE[state]

    def _fix_of_ended(self) -> str:
        return _ENDED_AT_ONCE


class _CompleterOfBatch(_Completer):
    """Completes the objects of a query's batch, which may have been committed before."""

    def __init__(
        self, settings: WriteSettings, sent: Iterable[SealedObject], batches: WrittenBatches, number: int
    ) -> None:
        super().__init__(settings, sent)
        self._batches = batches
        self._number = number
        self._done: set[str] = set()
        self._noted = cache(lambda: batches.noted_open(number))

    def complete(self, sealed: SealedObject) -> str | None:
        """See `_Completer`."""
        problem = super().complete(sealed)
        if problem is None:
            self._done.add(sealed.id)
        return problem

    def note_left(self, objects: Sequence[SealedObject]) -> None:
        """See `_Completer`: a commit that comes again takes what is gone, and not noted, for complete."""
        self._batches.note_left(self._number, frozenset(one.id for one in objects) - self._done)

    def _is_ended(self, sealed: SealedObject) -> bool:
        return super()._is_ended(sealed) or sealed.id in self._noted()

    def _fix_of(self, state: CompletionState) -> str:
        return _FIXES[state].format(file=self._batches.place(self._number))

    def _fix_of_ended(self) -> str:
        file, note = self._batches.place(self._number), self._batches.place_of_open(self._number)
        return _ENDED_BY_ANOTHER.format(file=file, note=note)


def _give_up(settings: WriteSettings, objects: Sequence[SealedObject]) -> None:
    """End uploads that no commit has named; those that stay are for the bucket's lifecycle rule."""
    if not objects:
        return
    calls = _uploads(settings)
    for sealed in objects:
        for upload in sealed.uploads:
            with suppress(HeadraceError):
                calls.abort(sealed.bucket, upload.key, upload.upload_id)
    _LOG.info("uploads_given_up", objects=len(objects))
