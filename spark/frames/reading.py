"""A task of a read: its splits as Arrow batches, bad rows, and objects that are not what they were."""

import base64
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from headrace.formats import DecodeOptions, parquet
from headrace.formats.packed.members import packing_of
from headrace.formats.parquet_schema import Int96Type, int96_moments
from headrace.kafka.data_topics import OutputTopic
from headrace.kafka.producer.topic_limits import TopicLimits
from headrace.model.columns import BadRow, RowBatch
from headrace.model.errors import (
    FrameRefused,
    HeadraceError,
    InvalidObject,
    ObjectArchived,
    ObjectCorrupt,
    ObjectMissing,
    ObjectSuperseded,
    TopicMissing,
)
from headrace.model.objects import ObjectId
from headrace.model.positions import Position, RowPosition, position_as_dict
from headrace.model.slot_protocol import Split
from headrace.options.choices import InputFormat, Tolerance
from headrace.options.settings import S3Settings
from headrace.s3 import S3Calls, new_s3_calls
from headrace.s3.reader import Prefetch, RateLimiter, S3Source
from spark.frames.batch_splits import FramePartition, Shipped
from spark.frames.column_rows import ColumnReader, Columns, NewColumns, data_fields
from spark.frames.column_types import METADATA, RESCUED
from spark.frames.frame_options import Evolution, FramesSettings, OnSuperseded, Rows
from spark.frames.inference import PARTITION_COLUMNS, add_columns, format_of, has_own_columns
from spark.frames.log_store import BAD, BadNotes, LogStore, log_store
from spark.frames.record_rows import (
    constant,
    metadata_array,
    object_values,
    position_texts,
    record_batch,
    without_far_times,
)
from spark.frames.refusals import as_a_sentence
from spark.source.decoding import Decoding

_LOG = structlog.get_logger(__name__)

_OF_TEXTS: Final = frozenset({InputFormat.CSV, InputFormat.TEXT})
"""Their fields, or groups of a pattern, are texts whatever they hold."""


@functools.lru_cache(maxsize=64)
def s3_calls(settings: S3Settings) -> S3Calls:
    """The process's client for these settings, kept for its later tasks; renewed keys are others."""
    return new_s3_calls(settings)


class _NoBroker:
    """No topic limits the rows of a frame."""

    def get(self, name: str, /) -> OutputTopic:
        """No topic is known."""
        raise TopicMissing(name)

    def ask(self, name: str, /) -> OutputTopic:
        """The same."""
        return self.get(name)


@dataclass(frozen=True, slots=True)
class ReadTask(Shipped):
    """What a task needs. `schema` is the Arrow schema of the frame; `is_inferred`: the query gave none."""

    settings: FramesSettings
    schema: Any
    template_names: frozenset[str]
    is_inferred: bool

    def read(self, partition: FramePartition) -> Iterator[Any]:
        """The rows of the partition as Arrow batches; FrameRefused names object and fix."""
        try:
            yield from self._read(partition)
        except HeadraceError as error:
            raise as_a_sentence(error) from None

    def _read(self, partition: FramePartition) -> Iterator[Any]:
        if not partition.splits:
            return
        settings = self.settings
        run = _Reading(self, partition)
        try:
            calls = s3_calls(settings.shared.s3)
            sources = Prefetch(
                calls, partition.splits, RateLimiter(None), streams=run.decoding.streams and not run.is_ranged
            )
        except HeadraceError as error:
            raise FrameRefused(str(error)) from error
        try:
            for split in partition.splits:
                yield from run.split(sources.next(), split)
        except GeneratorExit:
            # The query takes no more rows: of `limit` this is the end.
            run.bad.keep()
            raise
        finally:
            sources.close()
        run.bad.close()


class _Reading:
    """One partition while it is read."""

    def __init__(self, task: ReadTask, partition: FramePartition) -> None:
        settings = task.settings
        self._task = task
        self._settings = settings
        self._partition = partition
        self._schema = task.schema
        self._has_metadata = METADATA in task.schema.names
        self.is_ranged = (
            settings.rows is Rows.COLUMNS and settings.shared.format.input_format is InputFormat.AUTO
        )
        self.bad = BadNotes(self._state, batch=partition.batch)
        # Objects of which rows are in the frame, and those that are left out: none is both.
        self._with_rows: set[ObjectId] = set()
        self._left_out: set[ObjectId] = set()
        self._from_key = frozenset(task.template_names & PARTITION_COLUMNS.keys())
        self._reader: ColumnReader | None = None
        self._text_reader: ColumnReader | None = None
        if settings.rows is Rows.COLUMNS:
            self._reader = self._column_reader(is_text=False)
        fit = None if self._reader is None else self._reader.fit
        self.decoding = Decoding(settings.shared.format, TopicLimits(_NoBroker()), fit=fit)

    def split(self, source: S3Source, split: Split) -> Iterator[Any]:
        """The rows of one split; none where its object was left out at one before."""
        if split.object.id in self._left_out:
            # It may be there again as it was, and is left out whole.
            return
        self.bad.begin(split)
        try:
            for batch in self._batches(source, split):
                if batch.num_rows:
                    self._with_rows.add(split.object.id)
                self.bad.keep_some()
                yield batch
        except (ObjectMissing, ObjectSuperseded) as error:
            self._leave_out(error, split)
        except (ObjectCorrupt, InvalidObject) as error:
            if self._settings.shared.errors.tolerance is Tolerance.NONE:
                raise FrameRefused(
                    f"{error} {self._tolerant} keeps what could be read of it and notes the rest in "
                    f"state.path/{BAD}{self._ways_past()}."
                ) from error
            self._note(split, None, reason=type(error).__name__, message=str(error), raw=None)
        except ObjectArchived as error:
            batch = self._partition.batch
            holds = "" if batch is None else f"Batch {batch} holds it. "
            raise FrameRefused(f"{error} {holds}Restore it, or leave it out by object.exclude.") from error
        except NewColumns as error:
            raise self._refused(error, split) from error
        except HeadraceError as error:
            raise error if isinstance(error, FrameRefused) else FrameRefused(str(error)) from error
        # What is left out was not read, and what an earlier read has noted of it stays.
        self.bad.end(is_whole=split.object.id not in self._left_out)

    # -- rows
    # --------------------------------------------------------------------------------------------------

    def _batches(self, source: S3Source, split: Split) -> Iterator[Any]:
        if split.object.size == 0 and not split.route.may_be_empty:
            return
        if self._settings.rows is Rows.RECORDS:
            target = self.decoding.target(split)
            for decoded in self.decoding.decode(source, split):
                rows = without_far_times(decoded) if "timestamp" in self._schema.names else decoded
                self._take_bad(split, rows.bad)
                yield from record_batch(rows, split, target, self._schema)
            return
        assert self._reader is not None, "rows are columns"
        is_packed = packing_of(source, self._settings.shared.format) is not None
        given = self._settings.shared.format
        found = given.input_format if is_packed else format_of(source, given)
        if found is None:
            return
        if has_own_columns(found, given, is_packed=is_packed):
            options = DecodeOptions(format=self._settings.shared.format)
            arrow_rows = parquet.ArrowRows(source, options=options, columns=self._reader.wanted)
            if not _has_unknown_types(arrow_rows.schema):
                yield from self._of_parquet(arrow_rows, split, self._reader)
                return
        reader = self._field_reader() if found in _OF_TEXTS else self._reader
        for rows in self.decoding.decode(source, split):
            self._take_bad(split, rows.bad)
            yield from self._of_rows(rows, split, reader)

    def _of_rows(self, rows: RowBatch, split: Split, reader: ColumnReader) -> Iterator[Any]:
        if not len(rows):
            return
        columns = reader.of_json(rows.values)
        for bad in columns.bad:
            raw = rows.values.get(bad.row)
            self._take_bad_row(split, rows.positions(bad.row), "not_columns", bad.message, raw)
        positions = position_texts(rows) if self._has_metadata else None
        if positions is not None and columns.kept is not None:
            positions = positions.take(pa.array(columns.kept))
        yield self._made(columns, split, positions)

    def _of_parquet(self, rows: parquet.ArrowRows, split: Split, reader: ColumnReader) -> Iterator[Any]:
        for at, batch in rows.batches(split.begin, split.end):
            kept = np.arange(batch.num_rows)
            whole = batch
            try:
                batch.validate(full=True)
            except pa.ArrowInvalid:
                kept = self._valid_rows(batch, at, split)
                whole = batch.take(pa.array(kept))
            columns = reader.of_arrow(_plain_times(whole))
            for bad in columns.bad:
                self._take_bad_row(
                    split,
                    RowPosition(at.group, at.row + int(kept[bad.row])),
                    "not_columns",
                    bad.message,
                    None,
                )
            if columns.kept is not None:
                kept = kept[columns.kept]
            positions = _row_positions(at, kept) if self._has_metadata else None
            yield self._made(columns, split, positions)

    def _valid_rows(self, batch: Any, at: RowPosition, split: Split) -> Any:
        """The rows of a batch that are what their types say; the others are bad ones."""
        kept = []
        for row in range(batch.num_rows):
            try:
                # Taken out, so that nothing of its neighbours is looked at.
                batch.take(pa.array([row])).validate(full=True)
                kept.append(row)
            except pa.ArrowInvalid:
                message = "a value of the row is not one of its column's type"
                self._take_bad_row(split, RowPosition(at.group, at.row + row), "not_parquet", message, None)
        return np.array(kept, np.int64)

    def _made(self, columns: Columns, split: Split, positions: Any | None) -> Any:
        """The batch in the frame's schema."""
        data = iter(columns.arrays)
        count = columns.count
        of_key = object_values(split.object, split.route) if self._from_key else {}
        arrays = []
        for field in self._schema:
            if field.name == METADATA and positions is not None:
                arrays.append(metadata_array(split, positions, field.type))
            elif field.name == RESCUED:
                arrays.append(pa.nulls(count, field.type) if columns.rescued is None else columns.rescued)
            elif field.name in self._from_key:
                arrays.append(_of_key(of_key[field.name], field, count, split))
            else:
                arrays.append(next(data))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column_reader(self, *, is_text: bool) -> ColumnReader:
        fields = data_fields(self._schema, self._from_key)
        return ColumnReader(
            fields,
            ignored=self._from_key,
            has_rescue=RESCUED in self._schema.names,
            is_inferred=self._task.is_inferred,
            evolution=self._settings.evolution,
            is_text=is_text,
        )

    def _field_reader(self) -> ColumnReader:
        if self._text_reader is None:
            self._text_reader = self._column_reader(is_text=True)
        return self._text_reader

    # -- what goes wrong
    # ---------------------------------------------------------------------------------------

    def _take_bad(self, split: Split, rows: tuple[BadRow, ...]) -> None:
        for bad in rows:
            self._take_bad_row(split, bad.position, bad.reason, bad.message, bad.raw)

    def _take_bad_row(
        self, split: Split, position: Position, reason: str, message: str, raw: bytes | None
    ) -> None:
        if self._settings.shared.errors.tolerance is Tolerance.NONE:
            where = msgspec.json.encode(position_as_dict(position)).decode()
            correct = "Correct the object, or set" if self._partition.batch is None else "Set"
            raise FrameRefused(
                f"{split.object.id.url} has a bad row at {where} ({reason}): {message}. {correct} "
                f"{self._tolerant}, which leaves such rows out and notes them in state.path/{BAD}"
                f"{self._ways_past()}."
            )
        self._note(split, position, reason=reason, message=message, raw=raw)

    @property
    def _tolerant(self) -> str:
        """What has bad rows noted, and what that needs where the query does not have it."""
        return f"errors.tolerance=all{'' if self._settings.state_path else ' with a state.path'}"

    def _ways_past(self) -> str:
        """How a stream gets past an object of its batch, which comes again as it is in the log."""
        if self._partition.batch is None:
            return ""
        return (
            "; object.exclude leaves the object out; one that is corrected is left out of its batch with "
            "on.superseded=skip, and a later batch has it"
        )

    def _note(
        self, split: Split, position: Position | None, *, reason: str, message: str, raw: bytes | None
    ) -> None:
        found = split.object
        row: dict[str, Any] = {
            "bucket": found.id.bucket,
            "key": found.id.key,
            "etag": found.id.etag,
            "version_id": found.version_id,
            "position": None if position is None else position_as_dict(position),
            "reason": reason,
            "message": message,
        }
        if raw is not None:
            row["row"] = base64.b64encode(raw).decode()
        self.bad.add(row)

    def _leave_out(self, error: HeadraceError, split: Split) -> None:
        """Pass over an object that is not there any more as it was found, or fail the batch.

        Its rows are all in the frame or none: where some are, or may be with another task, the batch fails.
        """
        partition, found = self._partition, split.object.id
        has_rows = found in self._with_rows
        # Where it is another object, which a later batch has.
        is_once = partition.batch is None
        is_new_content = isinstance(error, ObjectSuperseded) and not partition.is_begun and not is_once
        has_skip = self._settings.on_superseded is OnSuperseded.SKIP
        if has_rows or found in partition.shared or not (is_new_content or has_skip):
            begun = ", and its batch was begun before" if partition.is_begun else ""
            read = ", and some of its rows were read by then" if has_rows else ""
            later = "; a later batch has its new content" if isinstance(error, ObjectSuperseded) else ""
            fix = (
                ": start the query again, which leaves the object out."
                if has_skip
                else f". Restore the object, or set on.superseded=skip to leave out what is gone{later}."
            )
            holds = f"Batch {partition.batch} holds it"
            if is_once:
                holds = "The frame was planned with it"
                fix = ". Load it again, or set on.superseded=skip to leave out what is gone."
            raise FrameRefused(f"{error} {holds}{read or begun}{fix}") from error
        self._left_out.add(found)
        _LOG.warning("object_left_out", object=found.url, error=str(error))

    def _refused(self, error: NewColumns, split: Split) -> FrameRefused:
        """The sentence about columns that the schema does not have, which it may have from now on."""
        named = ", ".join(repr(name) for name, _ in error.columns)
        begin = f"{split.object.id.url} has {named}, which the inferred schema does not have."
        if self._settings.evolution is not Evolution.ADD:
            return FrameRefused(
                f"{begin} Set schema.evolution=add to take new columns, schema.evolution=rescue to have "
                "them in "
                f"{RESCUED}, or give a schema."
            )
        add_columns(self._state(), error.columns)
        return FrameRefused(f"{begin} The schema at state.path has it now: start the query again.")

    def _state(self) -> LogStore:
        path = self._settings.state_path
        if path is None:
            raise FrameRefused(
                "errors.tolerance=all and schema.evolution=add need a state.path for what they write."
            )
        return log_store(path, self._settings.shared.s3)


def _of_key(value: Any, field: Any, count: int, split: Split) -> Any:
    """The column of a variable of the key."""
    try:
        return constant(value, field.type, count)
    except (pa.ArrowException, OverflowError) as error:
        raise FrameRefused(
            f"The key of {split.object.id.url} has the {field.name} {value}, which the column {field.name} "
            "of the schema does not hold: give it a wider type."
        ) from error


def _row_positions(at: RowPosition, rows: Any) -> Any:
    """The texts of these rows of a batch that begins at `at`."""
    numbers = pa.array(rows + at.row).cast(pa.string())
    return pc.binary_join_element_wise(f'{{"group":{at.group},"row":', numbers, "}", "")


def _has_unknown_types(schema: Any) -> bool:
    """Whether columns have types that are more than Arrow's own; times of INT96 are read all the same."""
    return any(_is_unknown(field.type) for field in schema if not isinstance(field.type, Int96Type))


def _is_unknown(kind: Any) -> bool:
    if isinstance(kind, pa.ExtensionType):
        return True
    if pa.types.is_struct(kind):
        return any(_is_unknown(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_unknown(kind.value_type)
    return bool(pa.types.is_map(kind)) and (_is_unknown(kind.key_type) or _is_unknown(kind.item_type))


def _plain_times(batch: Any) -> Any:
    """The batch with times of INT96 as timestamps."""
    if not any(isinstance(field.type, Int96Type) for field in batch.schema):
        return batch
    arrays = [
        int96_moments(column.storage) if isinstance(column.type, Int96Type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
