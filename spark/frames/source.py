"""What PySpark asks of a data source: the schema, and readers and writers of batches and streams."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import structlog
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    InputPartition,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.model.errors import FrameRefused, HeadraceError
from headrace.model.objects import Route, S3Object, is_directory_bucket
from headrace.model.text_formatting import printable
from headrace.options.choices import Tolerance
from ingest.source.catalogue import Baseline
from ingest.source.catalogue.listing_merge import ExclusionReason
from ingest.source.object_selection import object_filter_of
from spark.frames.admission import NO_LIMITS
from spark.frames.batch_splits import (
    KEY_PATH,
    FramePartition,
    cuts_of_each,
    may_hold,
    partitioned,
    shown_values,
    splits_of,
)
from spark.frames.column_types import METADATA, RESCUED
from spark.frames.frame_options import METADATA as METADATA_OPTION
from spark.frames.frame_options import STATE_PATH, Evolution, FramesSettings, Rows, reading_settings
from spark.frames.inference import (
    METADATA_FIELD,
    PARTITION_COLUMNS,
    RECORDS,
    arrow_schema_of,
    inferred_schema,
    keep_schema,
    kept_schema,
    refuse_evolution,
    refuse_too_deep,
    refuse_unread,
    warn_of_spellings,
)
from spark.frames.log_store import log_store
from spark.frames.reading import ReadTask, s3_calls
from spark.frames.refusals import RefusedStream, as_a_sentence, in_a_sentence

if TYPE_CHECKING:
    from spark.frames.running_stream import RunningStream
    from spark.frames.writing import HeadraceStreamWriter, HeadraceWriter

_LOG = structlog.get_logger(__name__)

Offset = dict[str, Any]
_ANY_NUMBER: Final = 2**31 - 1
# What the variables of the key may be read as.
_KINDS_OF_KEY: Final[dict[str, tuple[type[DataType], ...]]] = {
    "topic": (StringType,),
    "partition": (IntegralType,),
    "start_offset": (IntegralType,),
    "timestamp": (TimestampType, TimestampNTZType),
}


class HeadraceSource(DataSource):
    """`format("headrace")`. Made in a process of the driver, and pickled to the others."""

    is_inferred = False
    """Whether the schema was asked for: the query gave none."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "headrace"

    @in_a_sentence
    def schema(self) -> StructType:
        """The columns, where the query does not give them."""
        settings = reading_settings(self.options)
        self.is_inferred = True
        if settings.rows is Rows.RECORDS:
            return RECORDS if settings.has_metadata else StructType(RECORDS.fields[:-1])
        from_key = template_names(settings)
        fields = [
            *_data_columns(settings, from_key).fields,
            *(StructField(name, kind) for name, kind in PARTITION_COLUMNS.items() if name in from_key),
            StructField(RESCUED, StringType()),
        ]
        return StructType([*fields, METADATA_FIELD] if settings.has_metadata else fields)

    @in_a_sentence
    def reader(self, schema: StructType) -> "HeadraceReader":
        """The reader of what is there now."""
        settings = reading_settings(self.options)
        return HeadraceReader(settings, _task(settings, schema, is_inferred=self.is_inferred))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802  # PySpark's name
        """The reader of what is there and of what comes, or one that refuses the query at its first call."""
        try:
            return self._stream_reader(schema)
        except HeadraceError as error:
            return RefusedStream(str(as_a_sentence(error)))

    def _stream_reader(self, schema: StructType) -> "HeadraceStreamReader":
        settings = reading_settings(self.options)
        if settings.state_path is None:
            raise FrameRefused(f"{STATE_PATH.name} is missing: a stream keeps its discovery log there.")
        return HeadraceStreamReader(settings, _task(settings, schema, is_inferred=self.is_inferred))

    @in_a_sentence
    def writer(self, schema: StructType, overwrite: bool) -> "HeadraceWriter":  # noqa: FBT001  # PySpark's
        """The writer of a frame."""
        from spark.frames.writing import HeadraceWriter, writing_settings

        return HeadraceWriter(writing_settings(self.options, schema, overwrites=overwrite))

    @in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> "HeadraceStreamWriter":  # noqa: N802, FBT001  # PySpark's
        """The writer of a query's batches."""
        from spark.frames.writing import HeadraceStreamWriter, writing_settings

        return HeadraceStreamWriter(writing_settings(self.options, schema, overwrites=overwrite))


def template_names(settings: FramesSettings) -> frozenset[str]:
    """The names that the template reads from keys; none of an archive, whose layout does."""
    if settings.shared.format.restore is not None:
        return frozenset()
    return settings.shared.key_template().names


def _data_columns(settings: FramesSettings, from_key: frozenset[str]) -> StructType:
    """The columns of the data: those that are kept, or inferred now, without what comes of the key."""
    store = None if settings.state_path is None else log_store(settings.state_path, settings.shared.s3)
    left_out = from_key & PARTITION_COLUMNS.keys()
    columns = None if store is None else kept_schema(store)
    if columns is None:
        calls = s3_calls(settings.shared.s3)
        samples = islice((found for found, _ in _objects_now(settings) if found.size), settings.samples)
        columns = inferred_schema(settings, calls, samples, left_out=left_out)
        columns = columns if store is None else keep_schema(store, columns)
    # The template may have been given a variable since they were kept.
    return StructType([field for field in columns.fields if field.name not in left_out])


def _task(settings: FramesSettings, schema: StructType, *, is_inferred: bool) -> ReadTask:
    names = schema.fieldNames()
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FrameRefused(f"The schema has the column {twice} twice: name each once.")
    ours = names if settings.rows is Rows.RECORDS else template_names(settings) | {METADATA, RESCUED}
    _refuse_filled(schema, frozenset(ours))
    if settings.rows is Rows.RECORDS:
        types = {field.name: field.dataType for field in RECORDS.fields}
        for field in schema.fields:
            if types.get(field.name) != field.dataType:
                raise FrameRefused(
                    f"rows=records has no column {field.name} {field.dataType.simpleString()}: leave the "
                    "schema "
                    f"out, or give columns of {RECORDS.simpleString()}; rows=columns reads other columns."
                )
    else:
        refuse_too_deep(schema, is_inferred=is_inferred)
        if not is_inferred:
            _refuse_odd_columns(schema, template_names(settings))
            refuse_unread(schema, settings.shared.format)
            refuse_evolution(settings, schema)
            if METADATA in names and schema[METADATA].dataType != METADATA_FIELD.dataType:
                raise FrameRefused(
                    f"The column {METADATA} of the schema has to be {METADATA_FIELD.dataType.simpleString()}."
                )
    if METADATA_OPTION.name in settings.given and settings.has_metadata and METADATA not in names:
        raise FrameRefused(
            f"{METADATA_OPTION.name}=true needs a column {METADATA} in the schema that is given."
        )
    if settings.shared.errors.tolerance is Tolerance.ALL and settings.state_path is None:
        raise FrameRefused(f"errors.tolerance=all needs a {STATE_PATH.name}, where bad rows are noted.")
    if settings.evolution is Evolution.ADD and settings.state_path is None:
        raise FrameRefused(f"schema.evolution=add needs a {STATE_PATH.name}, where the schema is kept.")
    return ReadTask(settings, arrow_schema_of(schema), template_names(settings), is_inferred)


def _refuse_odd_columns(schema: StructType, from_key: frozenset[str]) -> None:
    """FrameRefused for a schema without columns, and for a variable of the key of another kind."""
    if not schema.fields:
        raise FrameRefused("The schema that is given has no columns: name one at least, or leave it out.")
    warn_of_spellings(schema)
    if RESCUED in schema.names and not isinstance(schema[RESCUED].dataType, StringType):
        raise FrameRefused(f"The column {RESCUED} of the schema has to be string: it is JSON.")
    for field in schema.fields:
        kinds = _KINDS_OF_KEY.get(field.name) if field.name in from_key else None
        if kinds is not None and not isinstance(field.dataType, kinds):
            raise FrameRefused(
                f"The column {field.name} of the schema is {field.dataType.simpleString()}, and the key's "
                f"{field.name} is {PARTITION_COLUMNS[field.name].simpleString()}: give it that type, and "
                "cast it in the query."
            )


def _refuse_filled(schema: StructType, ours: frozenset[str]) -> None:
    """FrameRefused where what is NOT NULL may be null and no row can be left out for it.

    `ours` are columns that are not of the data.
    """
    for field in schema.fields:
        is_refused = field.name in ours and not field.nullable
        if is_refused or not _is_nullable_within(field.dataType):
            raise FrameRefused(
                f"The column {field.name} of the schema, or a member of it, is NOT NULL, and may be null "
                "here. Give it as one that may be null."
            )


def _is_nullable_within(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(field.nullable and _is_nullable_within(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return kind.containsNull and _is_nullable_within(kind.elementType)
    return not isinstance(kind, MapType) or (kind.valueContainsNull and _is_nullable_within(kind.valueType))


def _objects_now(settings: FramesSettings, prefix: str | None = None) -> Iterator[tuple[S3Object, Route]]:
    """What the bucket has now and the filters let pass, with its route; blocks on listings.

    `prefix` is one within that of the settings, where no other keys are wanted.
    """
    shared = settings.shared
    chosen = object_filter_of(shared, Baseline(start_key=shared.discovery.native_start_key))
    min_age_ms = shared.discovery.min_age_ms
    unmatched, archived, first, first_archived = 0, 0, "", ""
    calls, place = s3_calls(shared.s3), (shared.s3.bucket, prefix or shared.s3.prefix)
    try:
        # By the store's own clock, which dates the objects.
        oldest_ms = calls.clock_ms(*place) - min_age_ms if min_age_ms else 0
        for found in calls.listed(*place):
            route = chosen.listed_route_or_reason(found)
            if isinstance(route, ExclusionReason):
                if route is ExclusionReason.UNMATCHED:
                    unmatched, first = unmatched + 1, first or found.id.key
                continue
            is_wanted = settings.is_in_time(found) and not settings.is_state(found.id.key)
            if is_wanted and found.is_archived:
                archived, first_archived = archived + 1, first_archived or found.id.key
            elif is_wanted and (not min_age_ms or found.last_modified_ms <= oldest_ms):
                yield found, route
    except HeadraceError as error:
        raise FrameRefused(str(error)) from error
    _tell("keys_left_out", unmatched, first, "file.name.template, or input.layout, does not match them")
    restored = "objects like it are read once they are restored"
    _tell("object_archived", archived, first_archived, restored)


def _tell(event: str, keys: int, first: str, detail: str) -> None:
    if keys:
        _LOG.warning(event, keys=keys, first=printable(first), detail=detail)


class _Pushed:
    """`pushFilters` of a reader, for which PySpark requires no setting.

    It refuses readers with one of their own unless spark.sql.python.filterPushdown.enabled is set, so that
    filters are not ignored unseen; here Spark filters the rows in any case.
    """

    def __init__(self, keep: Callable[[list[Filter]], None]) -> None:
        self._keep = keep
        # By which it knows a reader without one.
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        """All of them, for Spark to apply to rows."""
        self._keep(filters)
        return filters


class HeadraceReader(DataSourceReader):
    """Reads what is there now, once."""

    def __init__(self, settings: FramesSettings, task: ReadTask) -> None:
        self._settings = settings
        self._task = task
        self._filters: list[Filter] = []
        # The key's variables as columns: with other types than theirs, Spark compares something else.
        types = arrow_schema_of(StructType([StructField(*each) for each in PARTITION_COLUMNS.items()]))
        self._shown = frozenset(
            field.name
            for field in task.schema
            if settings.rows is Rows.COLUMNS and field.name in task.template_names and field in types
        )

    @property
    def pushFilters(self) -> _Pushed:  # noqa: N802  # PySpark's name
        """Takes the filters of the query that objects are chosen by."""
        return _Pushed(self._filters.extend)

    @in_a_sentence
    def partitions(self) -> list[FramePartition]:
        """The splits of all objects; one without any where there is nothing, for Spark wants one."""
        settings = self._settings
        calls = s3_calls(settings.shared.s3)
        needed = [one for one in _objects_now(settings, self._prefix()) if self._is_needed(*one)]
        cuts = cuts_of_each(settings, calls, [found for found, _ in needed])
        splits = [
            split
            for (found, route), places in zip(needed, cuts, strict=True)
            for split in splits_of(found, route, places)
        ]
        parts = partitioned(splits, settings)
        return parts or [FramePartition((), batch=None, is_begun=False)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition, in a task."""
        assert isinstance(partition, FramePartition), "it is one of `partitions`"
        return self._task.read(partition)

    def _prefix(self) -> str:
        """The longest prefix that all keys begin with that the filters let pass."""
        prefix = self._settings.shared.s3.prefix
        given = [
            each.value
            for each in self._filters
            if isinstance(each, EqualTo | StringStartsWith) and each.attribute == KEY_PATH
        ]
        found = max((each for each in given if each.startswith(prefix)), key=len, default=prefix)
        if is_directory_bucket(self._settings.shared.s3.bucket):
            # It refuses those that end within a name.
            return found[: max(len(prefix), found.rfind("/") + 1)]
        return found

    def _is_needed(self, found: S3Object, route: Route) -> bool:
        values = shown_values(found, route, self._shown) if self._filters else {}
        return all(may_hold(each, values) for each in self._filters)

    def __getstate__(self) -> dict[str, Any]:
        return {"_task": self._task}


class HeadraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is there and what comes: one in the driver, for as long as the query runs.

    Copies of it are pickled to tasks, where only `read` is called: what it has at work is made when it is
    needed.
    """

    def __init__(self, settings: FramesSettings, task: ReadTask) -> None:
        self._settings = settings
        self._task = task
        self._running: RunningStream | None = None

    @in_a_sentence
    def initialOffset(self) -> Offset:  # noqa: N802  # PySpark's name
        """Before the first batch."""
        return self._run().offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # PySpark's name
        """The limit of the options that Spark is to ask for; the other one is held to in addition.

        Never all that is available: with that Spark asks for `Trigger.Once`, and in no other way.
        """
        limits = self._settings.limits
        if limits.max_files is None and limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadMaxFiles(_ANY_NUMBER if limits.max_files is None else limits.max_files)

    @in_a_sentence
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  # PySpark's name
        """A batch that is durable, `start` where there is nothing new."""
        running = self._run()
        if isinstance(limit, ReadAllAvailable):
            # It asks this once, and takes no limits of the options.
            running.only_what_is_there(NO_LIMITS, is_only_batch=True)
            return running.next_offset(start, NO_LIMITS)
        return running.next_offset(start, self._settings.limits)

    @in_a_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # PySpark's name
        """From now on what the bucket has now, and no more."""
        self._run().only_what_is_there(self._settings.limits)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802  # PySpark's name
        """What the progress of the query shows: the log's last batch, what is known, and what waits."""
        return None if self._running is None else self._running.report()

    @in_a_sentence
    def partitions(self, start: Offset, end: Offset) -> list[FramePartition]:
        """The partitions of the batches after `start`, up to `end`: for ever the same."""
        return self._run().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition, in a task."""
        assert isinstance(partition, FramePartition), "it is one of `partitions`"
        return self._task.read(partition)

    @in_a_sentence
    def commit(self, end: Offset) -> None:
        """Everything up to `end` is done: its messages are deleted."""
        self._run().commit(end)

    def stop(self) -> None:
        """End the listeners."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def __getstate__(self) -> dict[str, Any]:
        # A task needs nothing else; what it has is refused where its side has another version.
        return {"_task": self._task}

    def _run(self) -> "RunningStream":
        if self._running is None:
            # Tasks have this class too, and need nothing of what finds objects.
            from spark.frames.running_stream import RunningStream

            self._running = RunningStream.opened(self._settings)
        return self._running
