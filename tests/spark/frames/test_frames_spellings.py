"""Columns whose names differ by case alone, which Spark has for one."""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from structlog.testing import capture_logs

from headrace.model.errors import FrameRefused
from spark.frames.inference import add_columns
from spark.frames.log_store import DirectoryStore
from spark.frames.source import HeadraceSource
from spark.frames.writing import HeadraceStreamWriter, HeadraceWriter, writing_settings
from tests.support.http_bucket import HttpBucket, http_bucket

_ADD: Final = {"schema.evolution": "add"}


@pytest.fixture
def bucket() -> Iterator[HttpBucket]:
    """A bucket that is empty."""
    with http_bucket() as made:
        yield made


def lines(*rows: dict[str, Any]) -> bytes:
    """An object of JSON Lines."""
    return b"\n".join(json.dumps(row).encode() for row in rows)


class Query:
    """A read of the bucket with one state."""

    def __init__(self, bucket: HttpBucket, folder: Path, **options: str) -> None:
        self.given = {
            "path": "s3://bucket/in/",
            "rows": "columns",
            "state.path": str(folder),
            **bucket.options,
            **options,
        }

    def columns(self, **options: str) -> str:
        """Those of the schema."""
        found = HeadraceSource({**self.given, **options}).schema().simpleString()
        return found.removeprefix("struct<").removesuffix(",_rescued_data:string>")

    def rows(
        self, options: Mapping[str, str] | None = None, *, schema: StructType | None = None
    ) -> list[tuple[Any, ...]]:
        """All rows, in the order of keys; what was rescued as JSON."""
        source = HeadraceSource({**self.given, **(options or {})})
        reader = source.reader(source.schema() if schema is None else schema)
        found = [
            tuple(row.values())
            for part in reader.partitions()
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]
        return [(*values, None if last is None else json.loads(last)) for *values, last in found]


def test_spellings_in_what_a_schema_is_inferred_from(bucket: HttpBucket, tmp_path: Path) -> None:
    """The first has the column, the template's variables and ours before all; the log has the others."""
    row = {"id": 1, "ID": "a", "Topic": "b", "_Metadata": 2, "m": {"x": 1, "X": 2}}
    bucket.objects |= {"in/t/a.jsonl": lines(row), "in/t/b.jsonl": lines({"Id": 3})}
    query = Query(bucket, tmp_path, **{"file.name.template": "in/{{topic}}/.*"})

    with capture_logs() as logged:
        assert query.columns() == "id:bigint,m:struct<X:bigint,x:bigint>,topic:string"
    assert [line["columns"] for line in logged if line["event"] == "spellings_rescued"] == [
        ["ID", "Topic", "_Metadata", "Id"]
    ]
    assert query.rows() == [
        (1, {"X": 2, "x": 1}, "t", {"ID": "a", "Topic": "b", "_Metadata": 2}),
        (None, None, "t", {"Id": 3}),
    ]


@pytest.mark.parametrize("is_parquet", [False, True])
def test_another_spelling_that_comes_later(bucket: HttpBucket, tmp_path: Path, is_parquet: bool) -> None:
    """It is no new column, whatever the evolution; of two that are new the first is."""

    def put(name: str, row: dict[str, Any]) -> None:
        content = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([row]), content)
        bucket.objects[f"in/{name}"] = content.getvalue() if is_parquet else lines(row)

    query = Query(bucket, tmp_path)
    put("a", {"id": 1})
    assert query.columns() == "id:bigint"

    put("b", {"ID": 2})
    for evolution in ("fail", "add", "rescue"):
        assert query.rows({"schema.evolution": evolution}) == [(1, None), (None, {"ID": 2})]

    put("c", {"ID": 3, "new": 4, "NEW": "n"})
    with pytest.raises(FrameRefused, match="has 'new', which the inferred schema does not have"):
        query.rows(_ADD)
    assert query.columns() == "id:bigint,new:bigint"
    assert query.rows(_ADD)[2] == (None, 4, {"ID": 3, "NEW": "n"})


def test_a_spelling_that_another_task_added(tmp_path: Path) -> None:
    """Both have read the schema without it."""
    (tmp_path / "schema.json").write_text(StructType([StructField("id", LongType())]).json())
    store = DirectoryStore(tmp_path)

    add_columns(store, [("new", pa.int64()), ("id", pa.int64())])
    add_columns(store, [("NEW", pa.string()), ("more", pa.int64())])

    kept = json.loads((tmp_path / "schema.json").read_text())
    assert [field["name"] for field in kept["fields"]] == ["id", "new", "more"]


def test_a_schema_that_was_kept_with_two_spellings(bucket: HttpBucket, tmp_path: Path) -> None:
    """By an earlier version: queries select such columns and checkpoints hold them, so they stay."""
    bucket.objects["in/a.jsonl"] = lines({"id": 1, "ID": 2})
    kept = StructType([StructField("id", LongType()), StructField("ID", LongType())])
    (tmp_path / "schema.json").write_text(kept.json())
    query = Query(bucket, tmp_path)

    with capture_logs() as logged:
        assert query.columns() == "id:bigint,ID:bigint"
    assert [line["columns"] for line in logged if line["event"] == "columns_differ_by_case"] == [["ID"]]
    assert query.rows() == [(1, 2, None)]


def test_a_schema_of_ones_own_has_what_it_names(bucket: HttpBucket, tmp_path: Path) -> None:
    """`toDF` gives such columns other names, and spark.sql.caseSensitive tells them apart."""
    bucket.objects["in/a.jsonl"] = lines({"id": 1, "ID": 2})
    schema = StructType([StructField(name, LongType()) for name in ("id", "ID")]).add(
        "_rescued_data", "string"
    )

    with capture_logs() as logged:
        assert Query(bucket, tmp_path).rows(schema=schema) == [(1, 2, None)]
    assert [line["columns"] for line in logged if line["event"] == "columns_differ_by_case"] == [["ID"]]


@pytest.mark.parametrize("writer", [HeadraceWriter, HeadraceStreamWriter])
def test_columns_of_a_written_record_are_known_in_any_case(writer: Any) -> None:
    """A KEY was left out with a warning, and the archive had null keys. This one is no JSON."""
    options = {
        "path": "s3://archive/kafka/",
        "state.path": "unused",
        "output.fields": "key,value",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
    }
    schema = StructType().add("Topic", "string").add("PARTITION", "integer").add("Offset", "long")
    schema = schema.add("KEY", "binary").add("Value", "binary").add("mine", "integer")
    with capture_logs() as logged:
        given = writing_settings(options, schema, overwrites=False)
    assert [line["columns"] for line in logged if line["event"] == "columns_left_out"] == [["mine"]]

    row = {"Topic": "t", "PARTITION": 0, "Offset": 7, "KEY": b"no JSON", "Value": b"v", "mine": 1}
    with pytest.raises(FrameRefused, match=r"t-0 offset 7 is a bad record .*key"):
        writer(given).write(iter(pa.Table.from_pylist([row]).to_batches()))


def test_columns_of_a_record_that_come_twice() -> None:
    """Arrow found neither of two by their name, and every value was null."""
    schema = StructType().add("topic", "string").add("partition", "integer").add("offset", "long")
    schema = schema.add("value", "binary").add("value", "string")
    with pytest.raises(FrameRefused, match="has the columns value and value, and a record has one value"):
        writing_settings({"path": "s3://archive/"}, schema, overwrites=False)
