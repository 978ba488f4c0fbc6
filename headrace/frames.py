"""A frame of Spark's Kafka source, written by a sink's settings on the executors that have it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from headrace.model.errors import FrameRefused, InvalidConfiguration
from headrace.options import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NEEDED: Final = ("topic", "partition", "offset", "key", "value")
_BYTES: Final = frozenset({"binary", "string"})
_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FORMS: Final = {
    "topic": frozenset({"string"}),
    "partition": _NUMBERS,
    "offset": _NUMBERS,
    "key": _BYTES,
    "value": _BYTES,
    # One without a zone would be shifted by that of the session.
    "timestamp": frozenset({"timestamp"}),
    "timestampType": _NUMBERS,
    "headers": frozenset({"array<struct<key:string,value:binary>>"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWritten:
    """How much of a frame is in objects now; `bad` records are left out."""

    records: int
    objects: int
    bad: int


def write_frame(frame: "DataFrame", settings: Settings) -> FrameWritten:
    """What was written. Blocks; FrameRefused, and other classes of `headrace.model.errors` in their sentence.

    The objects of each topic-partition are written by one task, whatever partitions the frame has.
    """
    sink = settings.sink
    if sink is None:
        raise InvalidConfiguration(
            f"{settings.name!r} is a source: foreach_batch archives what Spark read from Kafka; set topics."
        )
    frame = as_recorded(frame)
    from pyspark.errors import PySparkException

    from spark.sink.frame_writer import RESULT_SCHEMA
    from spark.sink.sink_work import SinkTaskSettings, sink_task_settings

    _warn_once(tuple(frame.columns))
    given: SinkTaskSettings = sink_task_settings(settings, sink)

    def write(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        # In the worker: what is sent with the job has no module of ours in it.
        from spark.sink.frame_writer import write_rows

        return write_rows(given, batches)

    try:
        rows: list[Any] = _sorted(frame).mapInArrow(write, RESULT_SCHEMA).collect()
    except PySparkException as error:
        from spark.slots.jobs import cause_of

        cause = cause_of(error)
        remedy = _OTHER_PYTHON if cause.startswith("ModuleNotFoundError") else ""
        raise FrameRefused(f"Spark could not write the batch: {cause}{remedy}") from error
    for row in rows:
        if row.error is not None:
            raise FrameRefused(row.error)
    return FrameWritten(
        records=sum(row.records for row in rows),
        objects=sum(row.objects for row in rows),
        bad=sum(row.bad for row in rows),
    )


_OTHER_PYTHON: Final = (
    ". Spark's workers run another Python than this one: have PYSPARK_PYTHON, or spark.pyspark.python, name "
    "the one that Headrace is installed for."
)


@lru_cache(maxsize=64)
def _warn_once(columns: tuple[str, ...]) -> None:
    """Batches of a stream have the same columns."""
    from spark.frames.writing import warn_of_others

    warn_of_others(columns)


def as_recorded(frame: "DataFrame") -> "DataFrame":
    """The frame with its columns spelled as a record's; refused unless it is one of Spark's Kafka source."""
    from spark.frames.writing import spelled

    names = spelled(frame.columns)
    found = frame if names == frame.columns else frame.toDF(*names)
    check_columns(dict(found.dtypes))
    return found


def check_columns(types: dict[str, str]) -> None:
    """InvalidConfiguration unless these are columns of Spark's Kafka source; others may be next to them."""
    missing = [name for name in _NEEDED if name not in types]
    if missing:
        raise InvalidConfiguration(
            f"The frame has no column {', '.join(missing)}: give that of Spark's Kafka source as it is, with "
            "topic, partition, offset, timestamp, key and value."
        )
    for name, forms in _FORMS.items():
        if name in types and types[name] not in forms:
            raise InvalidConfiguration(
                f"The frame's column {name} is {types[name]}: expected {' or '.join(sorted(forms))}, as "
                "Spark's Kafka source has it; cast it."
            )


def _sorted(frame: "DataFrame") -> "DataFrame":
    """The rows as a task takes them: each topic-partition in one partition, in the order of its offsets."""
    from pyspark.sql import functions as f

    given = set(frame.columns)
    timestamp = f.expr("unix_millis(timestamp)") if "timestamp" in given else f.lit(None)
    kind = f.col("timestampType").cast("long") if "timestampType" in given else f.lit(None)
    nothing = f.lit(None).cast("array<struct<key:string,value:binary>>")
    columns = (
        f.col("topic"),
        f.col("partition").cast("int"),
        f.col("offset").cast("long"),
        f.coalesce(timestamp.cast("long"), f.lit(-1)).alias("timestamp_ms"),
        # Kafka's protocol has 1 for the producer's time; Spark counts as Java's client does, from -1.
        (f.coalesce(kind.cast("long"), f.lit(0)) + 1).alias("timestamp_type"),
        f.col("key").cast("binary"),
        f.col("value").cast("binary"),
        (f.col("headers") if "headers" in given else nothing).alias("headers"),
    )
    place = ("topic", "partition")
    return frame.select(*columns).repartition(*place).sortWithinPartitions(*place, "offset")
