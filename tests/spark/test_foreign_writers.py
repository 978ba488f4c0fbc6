"""Objects written by Java: Spark's Parquet, Avro's own library, Spark's text with Hadoop's codecs."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from headrace.options.choices import InputFormat
from tests.headrace.formats.avro_files import CODECS
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all

pytestmark = pytest.mark.parts


def _only_file(folder: Path, pattern: str) -> MemorySource:
    (path,) = folder.glob(pattern)
    return MemorySource(path.read_bytes(), name=path.name)


def _frame(session: SparkSession) -> Any:
    return session.range(0, 1000, 1, 1).select(
        "id",
        f.col("id").cast("decimal(38,18)").alias("d"),
        f.concat(f.lit('é "'), f.col("id")).alias("s"),
        f.expr("timestamp'9999-12-31 23:59:59.999999' - make_interval(0, 0, 0, 0, 0, 0, id)").alias("t"),
        f.expr("date'0001-01-01' + cast(id as int)").alias("day"),
        f.array(f.col("id"), f.lit(None)).alias("l"),
        f.create_map(f.lit("k"), f.col("id")).alias("m"),
        f.struct(f.col("id").alias("x"), f.lit(None).cast("string").alias("y")).alias("st"),
        f.expr("cast(cast(id as string) as binary)").alias("b"),
        (f.col("id") / 4).alias("f"),
    )


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "lz4_raw"])
def test_parquet_by_spark(spark_session: SparkSession, tmp_path: Path, timestamps: str, codec: str) -> None:
    """Every row as Spark itself shows it, whatever it writes timestamps as."""
    session = spark_session.newSession()  # with settings of its own
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
    _frame(session).write.option("compression", codec).parquet(str(tmp_path / "out"))

    decoded = decode_all(_only_file(tmp_path / "out", "part-*"), decode_options(InputFormat.PARQUET))

    assert decoded.error is None
    rows = [json.loads(value or b"") for value in decoded.values]
    assert [row["id"] for row in rows] == list(range(1000))
    digits = {"INT96": "999999000", "TIMESTAMP_MICROS": "999999Z", "TIMESTAMP_MILLIS": "999Z"}[timestamps]
    assert rows[0]["t"] == f"9999-12-31T23:59:59.{digits}"
    assert rows[7]["t"] == f"9999-12-31T23:59:52.{digits}"
    assert rows[0]["day"] == "0001-01-01"
    assert (decoded.values[3] or b"").startswith(
        b'{"id":3,"d":3.000000000000000000,"s":"\xc3\xa9 \\"3","t":"'
    )
    assert {name: rows[5][name] for name in ("l", "m", "st", "b", "f")} == {
        "l": [5, None],
        "m": {"k": 5},
        "st": {"x": 5, "y": None},
        "b": "NQ==",
        "f": 1.25,
    }


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_avro_by_its_own_library(spark_session: SparkSession, tmp_path: Path, codec: str) -> None:
    """Containers by org.apache.avro, which writes arrays in blocks with sizes when asked to."""
    jvm: Any = spark_session._jvm
    text = json.dumps(
        {
            "type": "record",
            "name": "Row",
            "namespace": "org.example",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "s", "type": ["null", "string"]},
                {"name": "u", "type": ["int", "string", "null"]},
                {"name": "l", "type": {"type": "array", "items": "long"}},
                {"name": "m", "type": {"type": "map", "values": "string"}},
                {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            ],
        }
    )
    schema = jvm.org.apache.avro.Schema.Parser().parse(text)
    writer = jvm.org.apache.avro.file.DataFileWriter(jvm.org.apache.avro.generic.GenericDatumWriter(schema))
    writer.setCodec(jvm.org.apache.avro.file.CodecFactory.fromString(codec))
    writer.setSyncInterval(200)
    path = tmp_path / "rows.avro"
    writer.create(schema, jvm.java.io.File(str(path)))
    symbols = schema.getField("e").schema()
    for number in range(50):
        row = jvm.org.apache.avro.generic.GenericData.Record(schema)
        row.put("id", jvm.java.lang.Long.valueOf(number))
        row.put("s", None if number % 2 else f"é {number}")
        row.put("u", [number, str(number), None][number % 3])
        numbers = jvm.java.util.ArrayList()
        for each in range(number % 4):
            numbers.add(jvm.java.lang.Long.valueOf(each))
        row.put("l", numbers)
        entries = jvm.java.util.HashMap()
        entries.put("k", str(number))
        row.put("m", entries)
        row.put("e", jvm.org.apache.avro.generic.GenericData.EnumSymbol(symbols, "AB"[number % 2]))
        writer.append(row)
    writer.close()

    decoded = decode_all(MemorySource(path.read_bytes()), decode_options(InputFormat.AVRO))

    assert [json.loads(value or b"") for value in decoded.values] == [
        {
            "id": number,
            "s": None if number % 2 else f"é {number}",
            "u": [number, str(number), None][number % 3],
            "l": list(range(number % 4)),
            "m": {"k": str(number)},
            "e": "AB"[number % 2],
        }
        for number in range(50)
    ]
    assert len({position for position, _ in decoded.rows}) == 50


@pytest.mark.parametrize("codec", ["gzip", "bzip2"])
def test_lines_by_spark(spark_session: SparkSession, tmp_path: Path, codec: str) -> None:
    """JSON Lines through Hadoop's codecs."""
    _frame(spark_session).select("id", "s").write.option("compression", codec).json(str(tmp_path / "out"))

    decoded = decode_all(_only_file(tmp_path / "out", "part-*"), decode_options(InputFormat.JSONL))

    assert [json.loads(value or b"")["id"] for value in decoded.values] == list(range(1000))
