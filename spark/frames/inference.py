"""The schema of a read without one: from the schema file at `state.path`, else from samples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
import structlog
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    _parse_datatype_json_string,
)

from headrace.formats import DecodeOptions, detected, parquet
from headrace.formats.packed.members import decoder_of, packing_of
from headrace.formats.parquet_schema import Int96Type
from headrace.formats.records.record_builder import needs_fields
from headrace.model.errors import (
    FrameRefused,
    HeadraceError,
    InvalidObject,
    ObjectCorrupt,
    ObjectMissing,
    ObjectSuperseded,
)
from headrace.model.objects import ByteSource, S3Object
from headrace.model.positions import position_as_dict
from headrace.model.text_formatting import counted
from headrace.options.choices import InputFormat, Tolerance
from headrace.options.settings import FormatSettings
from headrace.s3 import S3Calls
from headrace.s3.reader import S3Source
from spark.frames.column_types import (
    LEVELS,
    METADATA,
    RESCUED,
    RESERVED,
    columns_of_rows,
    finished,
    merged_schema,
    spelled_otherwise,
)
from spark.frames.frame_options import EVOLUTION, FramesSettings, OnSuperseded
from spark.frames.log_store import LogStore, refuse_other_directory

_LOG = structlog.get_logger(__name__)

_SCHEMA: Final = "schema.json"
_ROWS: Final = 1000

PARTITION_COLUMNS: Final = {
    "topic": StringType(),
    "partition": IntegerType(),
    "start_offset": LongType(),
    "timestamp": TimestampType(),
}
"""Columns that come of the key, by the template's names."""

METADATA_FIELD: Final = StructField(
    METADATA,
    StructType()
    .add("bucket", "string")
    .add("key", "string")
    .add("version_id", "string")
    .add("etag", "string")
    .add("size", "long")
    .add("last_modified", "timestamp")
    .add("position", "string")
    .add("topic", "string")
    .add("partition", "integer")
    .add("start_offset", "long")
    .add("timestamp", "timestamp"),
)

RECORDS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
        StructField("timestamp", TimestampType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        METADATA_FIELD,
    ]
)
"""The columns of `rows=records`."""


_READ: Final = (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)


def refuse_evolution(settings: FramesSettings, schema: StructType) -> None:
    """FrameRefused where the query says what new columns do, and its own schema leaves them out unseen."""
    if EVOLUTION.name in settings.given and RESCUED not in schema.names:
        raise FrameRefused(
            f"{EVOLUTION.name} is for an inferred schema, and one is given, which leaves other columns out: "
            f"remove the option, or have {RESCUED} string in the schema."
        )


def refuse_unread(schema: StructType, given: FormatSettings) -> None:
    """FrameRefused where a column has a type that no value of the objects can have: each row would be bad."""
    is_parquet = given.input_format is InputFormat.PARQUET and given.packing is None
    for field in schema.fields:
        kind = _unread(field.dataType, is_parquet=is_parquet)
        if kind is not None:
            is_elsewhere = _unread(kind, is_parquet=True) is None
            why = (
                "which Parquet alone has: set input.format=parquet, or give the column as string"
                if is_elsewhere
                else "which is not read: give the column as string, which has values as JSON"
            )
            raise FrameRefused(f"The column {field.name} of the schema has {kind.simpleString()}, {why}.")


def refuse_too_deep(schema: StructType, *, is_inferred: bool) -> None:
    """FrameRefused for a column that Arrow does not hand to Spark: its error would end each query."""
    for field in schema.fields:
        if (levels := _levels(field.dataType)) > LEVELS:
            fix = "give it as string, which has values as JSON"
            if is_inferred:
                fix = f"remove {_SCHEMA} at state.path, and it is inferred again"
            raise FrameRefused(
                f"The column {field.name} of the schema is nested {levels} levels deep, a map counted as "
                f"two, and Spark gets no more than {LEVELS}: {fix}."
            )


def _levels(kind: DataType) -> int:
    """How many lists and structs are within one another; a map is a list of structs."""
    if isinstance(kind, StructType):
        return 1 + max((_levels(field.dataType) for field in kind.fields), default=0)
    if isinstance(kind, ArrayType):
        return 1 + _levels(kind.elementType)
    if isinstance(kind, MapType):
        return 2 + max(_levels(kind.keyType), _levels(kind.valueType))
    return 0


def _unread(kind: DataType, *, is_parquet: bool) -> DataType | None:
    """The type, or the first within it, that has no values here; None where all have."""
    within: list[DataType] = []
    if isinstance(kind, StructType):
        within = [field.dataType for field in kind.fields]
    elif isinstance(kind, ArrayType):
        within = [kind.elementType]
    elif isinstance(kind, MapType):
        if not (is_parquet or isinstance(kind.keyType, StringType)):
            return kind
        within = [kind.keyType, kind.valueType]
    elif not isinstance(kind, (*_READ, *((TimeType, DayTimeIntervalType) if is_parquet else ()))):
        return kind
    found = (_unread(each, is_parquet=is_parquet) for each in within)
    return next((each for each in found if each is not None), None)


def kept_schema(store: LogStore) -> StructType | None:
    """The data columns that were inferred before, None where there are none.

    As they are, for queries select them and their checkpoints hold them: also two that differ by case
    alone, which earlier versions took in, and which Spark refuses to write into files.
    """
    content = store.read(_SCHEMA)
    if content is None:
        return None
    try:
        found = _parse_datatype_json_string(content.decode())
    except (ValueError, KeyError, RecursionError) as error:
        raise FrameRefused(
            f"{store.where}/{_SCHEMA} is not a schema of Spark ({error}): remove it to have it inferred "
            "again."
        ) from error
    assert isinstance(found, StructType)
    warn_of_spellings(found, remedy=f": out of {_SCHEMA} at state.path their values are in {RESCUED}")
    return found


def warn_of_spellings(schema: StructType, *, remedy: str = "") -> None:
    """Say which columns of a schema differ from others by case alone.

    No refusal: the setting with which Spark tells them apart is not told to a source.
    """
    others = spelled_otherwise(schema.names, ())
    if others:
        detail = (
            "Spark finds neither by its name, and writes no files with both, unless "
            f"spark.sql.caseSensitive=true{remedy}"
        )
        _LOG.warning("columns_differ_by_case", columns=others, detail=detail)


def _told_otherwise(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """As `spelled_otherwise`, with a line of the log."""
    others = spelled_otherwise(names, known)
    if others:
        detail = "they differ by case alone from columns that are there; their values are in _rescued_data"
        _LOG.warning("spellings_rescued", columns=others, detail=detail)
    return others


def keep_schema(store: LogStore, schema: StructType) -> StructType:
    """The schema that is kept: this one, unless another query of the log was first."""
    if store.create(_SCHEMA, schema.json().encode()):
        return schema
    return kept_schema(store) or schema


def add_columns(store: LogStore, columns: Iterable[tuple[str, Any]]) -> None:
    """Have these columns in the schema that is kept, at its end; FrameRefused where none is kept.

    Another task may have added one of them before, by another spelling.
    """
    refuse_other_directory(store, _SCHEMA)
    known = kept_schema(store) or StructType([])
    fields = list(known.fields)
    new = [(name, kind) for name, kind in columns if name not in known.names]
    others = _told_otherwise([name for name, _ in new], known.names)
    fields += [StructField(name, from_arrow_type(kind)) for name, kind in new if name not in others]
    store.replace(_SCHEMA, StructType(fields).json().encode())


def inferred_schema(
    settings: FramesSettings, calls: S3Calls, samples: Iterable[S3Object], *, left_out: frozenset[str]
) -> StructType:
    """The columns of these objects, types widened; FrameRefused where there is nothing to see them in.

    `left_out` are columns that come of the key.
    """
    columns: list[tuple[str, Any]] = []
    read = _Read()
    for found in samples:
        read.objects += 1
        try:
            columns = merged_schema(columns, _columns_of(settings, S3Source(calls, found), read))
        except HeadraceError as error:
            if not _is_passed_over(error, settings):
                raise FrameRefused(f"No schema can be inferred: {error}") from error
            read.pass_over(error)
    ours = left_out | RESERVED
    not_columns = ours.union(_told_otherwise([name for name, _ in columns], ours))
    columns = [(name, finished(kind)) for name, kind in columns if name not in not_columns]
    if not columns:
        raise FrameRefused(
            f"No schema can be inferred from {settings.url}: {read.sentence()}. Give one with .schema(..), "
            "or correct the prefix and the filters."
        )
    return from_arrow_schema(pa.schema(columns))


def _is_passed_over(error: HeadraceError, settings: FramesSettings) -> bool:
    """Whether a read of the object is to leave out what the error keeps from it."""
    if isinstance(error, ObjectMissing | ObjectSuperseded):
        return settings.on_superseded is OnSuperseded.SKIP
    is_tolerant = settings.shared.errors.tolerance is Tolerance.ALL
    return is_tolerant and isinstance(error, ObjectCorrupt | InvalidObject)


def arrow_schema_of(schema: StructType) -> Any:
    """The Arrow schema in which Spark expects the rows of a data source."""
    return to_arrow_schema(schema, timezone="UTC")


def format_of(source: ByteSource, given: FormatSettings) -> InputFormat | None:
    """The format of an object, None where it is empty; InvalidObject for one whose rows have no columns."""
    if given.input_format is not InputFormat.AUTO:
        return given.input_format
    found = detected.detected(source)
    if found in {InputFormat.TEXT, InputFormat.BYTES}:
        raise InvalidObject(
            f"{source.name} is {found}, which has no columns. Leave such objects out by object.exclude, or "
            "set input.format if it is another one.",
            reason="unsupported",
        )
    return found


@dataclass(slots=True)
class _Read:
    """What was looked into: objects, rows of them, bad rows and objects, and the first of those."""

    objects: int = 0
    rows: int = 0
    bad: int = 0
    first_bad: str = ""
    passed_over: int = 0
    first_passed_over: str = ""

    def pass_over(self, error: HeadraceError) -> None:
        """Note an object of which nothing more is looked into."""
        self.passed_over += 1
        self.first_passed_over = self.first_passed_over or str(error).removesuffix(".")

    def sentence(self) -> str:
        """Why there are no columns in it."""
        if not self.objects:
            return "there is no object yet"
        looked = f"{counted(self.objects, 'object')} {'was' if self.objects == 1 else 'were'} looked into"
        if self.rows:
            return f"{looked}, with {counted(self.rows, 'row')} that have no columns of their own"
        if self.bad:
            return f"{looked}, with no rows but {counted(self.bad, 'bad one')}, the first in {self.first_bad}"
        if self.passed_over:
            return f"{looked}, and {self.passed_over} could not be read, the first: {self.first_passed_over}"
        return f"{looked}, without any row (a header alone has no types)"


def _columns_of(settings: FramesSettings, source: S3Source, read: _Read) -> list[tuple[str, Any]]:
    given = settings.shared.format
    options = DecodeOptions(format=given)
    is_packed = packing_of(source, given) is not None
    found = given.input_format if is_packed else format_of(source, given)
    if found is None:
        return []
    if has_own_columns(found, given, is_packed=is_packed):
        schema = parquet.ArrowRows(source, options=options).schema
        return [(field.name, _spark_type(field.type)) for field in schema]
    return columns_of_rows(_rows(source, settings, read))


def has_own_columns(found: InputFormat, options: FormatSettings, *, is_packed: bool) -> bool:
    """Whether the columns of an object are those of its rows: Parquet of which no field is taken out."""
    return found is InputFormat.PARQUET and not is_packed and not needs_fields(options)


def _spark_type(kind: Any) -> Any:
    return pa.timestamp("us", "UTC") if isinstance(kind, Int96Type) else kind


def _rows(source: S3Source, settings: FramesSettings, read: _Read) -> Iterator[bytes]:
    """The first rows of an object, of a damaged one those before the damage where it is tolerated."""
    try:
        yield from islice(_sound_rows(source, DecodeOptions(format=settings.shared.format), read), _ROWS)
    except HeadraceError as error:
        if not _is_passed_over(error, settings):
            raise
        read.pass_over(error)


def _sound_rows(source: S3Source, options: DecodeOptions, read: _Read) -> Iterator[bytes]:
    for batch in decoder_of(options.format)(source, None, options=options):
        if batch.bad and not read.bad:
            first = batch.bad[0]
            where = msgspec.json.encode(position_as_dict(first.position)).decode()
            read.first_bad = f"{source.name} at {where} ({first.reason})"
        read.bad += len(batch.bad)
        for row in batch.values.each(0, len(batch)):
            if row is not None:
                read.rows += 1
                yield row
