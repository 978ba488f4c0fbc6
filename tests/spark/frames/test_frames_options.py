"""The options of a query: what they become, and what is said of those that cannot be."""

import dataclasses
import io
import json
import logging
import pickle
import re
import subprocess
import sys
import traceback
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import structlog
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimeType,
    VariantType,
    YearMonthIntervalType,
)
from typer.testing import CliRunner

from headrace.model.errors import FrameRefused
from headrace.model.objects import ObjectId, S3Object
from headrace.spark import register
from ingest.cli.app import app
from ingest.source.catalogue import Baseline
from spark.frames import refused_options
from spark.frames.admission import ReadLimits
from spark.frames.batch_splits import partitioned, received, splits_of
from spark.frames.discovery_log import DiscoveryLog, log_plan, settings_of
from spark.frames.frame_options import NO_TOPIC, OWN, SHARED, OnSuperseded, Rows, reading_settings
from spark.frames.inference import RECORDS, refuse_too_deep
from spark.frames.log_entries import LoggedObject
from spark.frames.log_store import DirectoryStore, log_store
from spark.frames.reading import ReadTask
from spark.frames.source import HeadraceSource
from spark.frames.writing import writing_settings
from spark.installed.sitecustomize import FOLDER
from spark.session import build_code_archive
from spark.sink.frame_records import record_columns, records_of


class Keeper:
    """Keeps an archive while it is there."""


_RECORDS = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("value", "binary")
)


def test_options_in_the_words_of_spark_and_of_run() -> None:
    """Spark gives names in small letters; the path names bucket and prefix."""
    found = reading_settings(
        {"path": "s3a://uploads/in/", "maxfilespertrigger": "5", "object.exclude": "*.tmp", "rows": "columns"}
    )

    assert (found.shared.s3.bucket, found.shared.s3.prefix) == ("uploads", "in/")
    assert found.limits == ReadLimits(max_files=5)
    assert found.shared.discovery.exclude == ("*.tmp",)
    assert (found.rows, found.has_metadata) == (Rows.COLUMNS, False)
    assert found.shared.routing.topic == NO_TOPIC


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "There are no options: give .load('s3://bucket/prefix/')"),
        ({"option.rows": "columns", "rows": "columns", "Provider": "headrace"}, "CREATE TEMPORARY VIEW"),
        ({"rows": "columns"}, "path: is missing; give s3://bucket/prefix to load"),
        ({"path": "s3a://b12/in/2026-*/"}, "globs: end it before * and set object.include = 'in/2026-*/'"),
        ({"path": "s3a://b12/{in,out}/"}, "end it before { and set object.include"),
        ({"path": "s3a://b12/in/a?[0-9]"}, "end it before ? and set object.include"),
        ({"path": "/data"}, "path = '/data': expected s3://bucket/prefix"),
        ({"path": "s3://b12/in", "aws.s3.bucket.name": "b13"}, "says something else; remove one of both"),
        ({"path": "s3://b12/", "maxFilePerTrigger": "5"}, "did you mean maxFilesPerTrigger?"),
        ({"path": "s3://b12/", "rowz": "columns"}, "did you mean rows?"),
        ({"path": "s3://b12/", "aws.sqs.endpoint": "http://localhost:4566"}, "did you mean sqs.endpoint?"),
        ({"path": "s3://b12/", "startingOffsets": "latest"}, "use include.existing=false, which leaves out"),
        ({"path": "s3://b12/", "maxOffsetsPerTrigger": "9"}, "use maxFilesPerTrigger or maxBytesPerTrigger"),
        ({"path": "s3://b12/", "kafka.bootstrap.servers": "b:9092"}, 'by format("kafka")'),
        ({"path": "s3://b12/", "maxFilesPerTrigger": "0"}, "maxFilesPerTrigger = '0': expected"),
        ({"path": "s3://b12/", "modifiedAfter": "soon"}, "modifiedAfter = 'soon': expected a time such as"),
        (
            {"path": "s3://b12/", "tasks.max": "many", "rows": "cells"},
            "rows = 'cells': expected records or columns",
        ),
        ({"path": "s3://b12/", "rows": "columns", "input.format": "bytes"}, "bytes has no columns"),
        ({"path": "s3://b12/", "rows": "columns", "input.format": "text"}, "text has no columns"),
        ({"path": "s3://b12/", "record.fields": "{{topic}}:t"}, "record.fields: is not an option"),
        ({"path": "s3://b12/", "rows": "columns", "input.layout": "aiven"}, "does not read archives"),
        ({"path": "s3://b12/", "rows": "columns", "input.archive": "zip"}, "of one format: set input.format"),
        (
            {"path": "s3://b12/", "rows": "columns", "value.format": "raw"},
            "value.format=raw (or its value.converter) makes bytes of a row",
        ),
        (
            {
                "path": "s3://b12/",
                "rows": "columns",
                "value.format": "avro",
                "schema.registry.url": "http://registry:8081",
            },
            "leave it out, or use rows=records.",
        ),
        (
            {"path": "s3://b12/", "rows": "columns", "key.source": "field:id"},
            "key.source = 'field:id': makes keys of records, and rows=columns gives columns: leave it out",
        ),
        (
            {
                "path": "s3://b12/",
                "rows": "columns",
                "file.name.template": "{{topic}}/.*",
                "key.source": "template:{{topic}}",
            },
            "key.source = 'template:{{topic}}': makes keys",
        ),
        (
            {"path": "s3://b12/", "rows": "columns", "record.timestamp": "field:at"},
            "record.timestamp = 'field:at': makes timestamps of records",
        ),
        (
            {"path": "s3://b12/", "rows": "columns", "record.timestamp": "object"},
            "time and position are in _metadata (metadata.column=true)",
        ),
        (
            {"path": "s3://b12/", "rows": "columns", "record.headers": "source"},
            "record.headers = 'source': makes headers of records",
        ),
        (
            {"path": "s3://b12/", "rows": "columns", "record.headers": "fields:tags"},
            "record.headers = 'fields:tags': makes headers of records",
        ),
        (
            {
                "path": "s3://b12/",
                "rows": "columns",
                "Key.converter": "org.apache.kafka.connect.storage.StringConverter",
            },
            "key.converter = 'org.apache.kafka.connect.storage.StringConverter': makes keys of records",
        ),
        ({"path": "s3://b12/", "post.action": "delete"}, "post.action: is not an option"),
        ({"path": "s3://b12/", "bootstrap.servers": "x:1"}, "bootstrap.servers: is not an option"),
        ({"path": "s3://b12/", "state.path": "s3://b12"}, "with a prefix of its own"),
        ({"path": "s3://b12/", "cloudFiles.format": "json"}, "use input.format"),
        ({"path": "s3://b12/", "cloudfiles.maxfilespertrigger": "9"}, "use maxFilesPerTrigger"),
        (
            {"path": "s3://b12/", "input.layout": "lenses", "restore.partition": "modulo"},
            "use original, or partitioner, with which the column is null",
        ),
        ({"path": "s3://b12/", "latestFirst": "true"}, "leave it out: nothing is listed for each batch"),
        ({"path": "s3://b12/", "fs.s3a.access.key": "k"}, "Hadoop's settings are not read: use aws.access"),
        ({"path": "s3://b12/", "sep": ";"}, "use csv.delimiter"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], sentence: str) -> None:
    """Each in a sentence, all at once."""
    with pytest.raises(FrameRefused) as raised:
        reading_settings(options)

    assert sentence in str(raised.value)


def test_rows_of_more_than_64_mib() -> None:
    """Which the sentence of a bad row names; another option was asked for then, which no query has."""
    found = reading_settings({"path": "s3://b12/", "record.max.bytes": "100000000"})

    assert found.shared.format.record_max_bytes == 100_000_000
    assert reading_settings({"path": "s3://b12/"}).shared.format.record_max_bytes == 64 << 20


_REGISTRY = {"schema.registry.url": "http://registry:8081"}
_GLUE = "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"
_AVRO = "io.confluent.connect.avro.AvroConverter"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"key.source": "template:{{topic}}/a"}, "key.source"),
        ({"record.headers": "template:{{ topic }}:origin"}, "record.headers"),
        ({"input.format": "avro", "value.format": "avro", **_REGISTRY}, "value.format"),
        ({"input.format": "avro", "value.converter": _AVRO, **_REGISTRY}, "value.converter"),
        (
            {"input.format": "avro", "value.converter": _GLUE, "aws.glue.region": "eu-west-1"},
            "value.converter",
        ),
        ({"key.converter": _AVRO, **_REGISTRY}, "key.converter"),
    ],
)
def test_what_a_topic_is_written_into_without_a_topic(options: dict[str, str], name: str) -> None:
    """What stands for none was in keys and headers, and a subject of the registry."""
    given = {"path": "s3://b12/", **options}
    with pytest.raises(FrameRefused) as raised:
        reading_settings(given)

    sentence = "and neither topic nor file.name.template names a topic: set topic."
    assert [line.split(" = ")[0] for line in str(raised.value).splitlines()] == [name]
    assert str(raised.value).endswith(sentence)
    assert reading_settings({**given, "topic": "orders"}).shared.routing.topic == "orders"
    assert reading_settings({**given, "file.name.template": "{{topic}}/.*"}).shared.routing.topic is None


@pytest.mark.parametrize(
    "options",
    [
        {"key.source": "template:{{partition}}", "file.name.template": "{{partition}}/.*"},
        {
            "input.format": "avro",
            "value.format": "avro",
            **_REGISTRY,
            "schema.registry.subject.name.strategy": "record",
        },
        {"key.converter": _AVRO, "key.source": "none", **_REGISTRY},
    ],
)
def test_what_needs_no_topic(options: dict[str, str]) -> None:
    """Other variables, and schemas that no topic names."""
    assert reading_settings({"path": "s3://b12/", **options}).shared.routing.topic == NO_TOPIC


_REGION = "aws_s3_region = 'us-west-2': says otherwise than aws.s3.region; keep one of them"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"errors.tolerance": "all", "error.tolerance": "none"}, "says otherwise than error.tolerance"),
        ({"aws.s3.region": "eu-central-1", "aws_s3_region": "us-west-2"}, _REGION),
        (
            {
                "key.converter.schema.registry.url": "http://a:1",
                "value.converter.schema.registry.url": "http://b:1",
            },
            "'http://b:1': says otherwise than key.converter.schema.registry.url; keep one of them",
        ),
    ],
)
def test_spellings_of_one_option_with_two_values(options: dict[str, str], sentence: str) -> None:
    """As of `headrace run`, for which neither wins; in whichever order they come."""
    for given in (options, dict(reversed(options.items()))):
        with pytest.raises(FrameRefused, match=r"says otherwise than .*; keep one of them") as raised:
            reading_settings({"path": "s3://b12/", "state.path": "s", **given})
        assert "\n" not in str(raised.value)
    with pytest.raises(FrameRefused) as refused:
        reading_settings({"path": "s3://b12/", "state.path": "s", **options})
    assert sentence in str(refused.value)


def test_spellings_of_one_option_with_one_value() -> None:
    """They say it twice, to readers and to writers; a writer refuses two values as a reader does."""
    twice = {"aws.s3.region": "eu-west-1", "aws_s3_region": " EU-west-1"}

    assert reading_settings({"path": "s3://b12/", **twice}).shared.s3.region == "eu-west-1"
    written = writing_settings({"path": "s3://b12/", **twice}, _RECORDS, overwrites=False)
    assert written.sink.s3.region == "eu-west-1"
    with pytest.raises(FrameRefused, match=r"says otherwise than aws\.s3\.region"):
        writing_settings({"path": "s3://b12/", **twice, "aws_s3_region": "x"}, _RECORDS, overwrites=False)


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("s3://b12/in#1/", "in#1/"),
        ("S3N://b12//in/a b%20c/", "in/a b%20c/"),
        ("s3a://b12", ""),
        ("s3://b12/a:b@c//d", "a:b@c//d"),
    ],
)
def test_a_prefix_may_have_any_sign(path: str, prefix: str) -> None:
    """What is a fragment in another address is of the key here, for writers as for readers."""
    read = reading_settings({"path": path, "state.path": path + "/s#1"}).shared.s3
    written = writing_settings({"path": path}, _RECORDS, overwrites=False).sink

    assert (read.bucket, read.prefix) == ("b12", prefix)
    assert (written.s3.bucket, written.s3.prefix) == ("b12", prefix)


def test_a_path_of_globs_may_be_meant() -> None:
    """A writer makes such keys, and a reader gets them by the options of `headrace run`."""
    writing_settings({"path": "s3://b12/a*/"}, _RECORDS, overwrites=False)
    given = {"aws.s3.bucket.name": "b12", "aws.s3.prefix": "a*/"}

    assert reading_settings(given).shared.s3.prefix == "a*/"


def test_several_paths_are_one_problem() -> None:
    """As Spark hands over a list of them."""
    with pytest.raises(FrameRefused) as raised:
        reading_settings({"paths": '["s3://b12/a","s3://b12/b"]'})

    assert str(raised.value).startswith("paths: a query reads one path: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/logs/a#b?c", "/logs/a#b?c"),
        ("file:///logs/x#1", "/logs/x#1"),
        ("file:/logs/x", "/logs/x"),
        ("file://localhost/logs/x", "/logs/x"),
        ("in/here", "in/here"),
        ("s3://b12/s#1/", "s3://b12/s#1"),
        ("S3A://b12/s?x", "s3://b12/s?x"),
        ("dbfs:/x", None),
        ("hdfs://n/x", None),
        ("abfss://c@a/x", None),
    ],
)
def test_places_of_a_log(path: str, place: str | None) -> None:
    """Two places are never one, whatever signs they have."""
    s3 = reading_settings({"path": "s3://b12/"}).shared.s3
    if place is None:
        with pytest.raises(FrameRefused, match="expected a directory that all drivers") as refused:
            log_store(path, s3)
        scheme, is_address, _ = path.partition("://")
        assert (f"; {scheme}:// is not reached." in str(refused.value)) is bool(is_address)
    else:
        assert log_store(path, s3).where.rstrip("/") == place


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (StructType(), "has no columns"),
        (
            StructType().add("topic", "integer"),
            "The column topic of the schema is int, and the key's",
        ),
        (StructType().add("partition", "string"), "give it that type, and cast it in the query"),
        (StructType().add("timestamp", "date"), "the key's timestamp is timestamp: give it that type"),
        (StructType().add("_rescued_data", "integer"), "_rescued_data of the schema has to be string"),
        (StructType().add("d", "string").add("d", "string"), "has the column d twice"),
    ],
)
def test_columns_that_cannot_be(columns: StructType, sentence: str) -> None:
    """Before a task begins: Arrow's words there would name neither key nor column."""
    options = {"path": "s3://b12/", "rows": "columns"}
    options["file.name.template"] = "{{topic}}-{{partition}}-{{timestamp}}"
    with pytest.raises(FrameRefused, match=re.escape(sentence)):
        HeadraceSource(CaseInsensitiveDict(options)).reader(columns)
    reader = HeadraceSource(CaseInsensitiveDict(options)).reader(
        StructType().add("partition", "short").add("timestamp", "timestamp_ntz")
    )
    assert reader is not None


@pytest.mark.parametrize("evolution", ["fail", "add", "rescue"])
def test_new_columns_are_not_left_out_unseen_where_the_query_says_what_they_do(evolution: str) -> None:
    """The option was passed over next to a schema; one with `_rescued_data` loses nothing."""
    options = {"path": "s3://b12/", "rows": "columns", "state.path": "unused"}
    source = HeadraceSource(CaseInsensitiveDict({**options, "schema.evolution": evolution}))
    schema = StructType().add("n", "long")
    with pytest.raises(FrameRefused, match=r"schema\.evolution is for an inferred schema, and one is given"):
        source.reader(schema)
    assert source.reader(StructType([*schema.fields]).add("_rescued_data", "string")) is not None
    assert HeadraceSource(CaseInsensitiveDict(options)).reader(schema) is not None


def test_a_path_that_is_none_is_one_problem() -> None:
    """The bucket is not missing in addition."""
    with pytest.raises(FrameRefused) as raised:
        reading_settings({"path": "/data"})

    assert str(raised.value) == "path = '/data': expected s3://bucket/prefix"


@pytest.mark.parametrize(
    ("rows", "schema"),
    [
        ("records", StructType().add("value", "binary", nullable=False)),
        ("columns", StructType().add("topic", "string", nullable=False)),
        ("columns", StructType().add("a", StructType().add("b", "long", nullable=False))),
        ("columns", StructType().add("a", ArrayType(LongType(), containsNull=False))),
        ("columns", StructType().add("a", MapType(StringType(), LongType(), valueContainsNull=False))),
    ],
)
def test_what_may_be_null_is_not_taken_as_not_null(rows: str, schema: StructType) -> None:
    """Where no row can be left out for it; Spark would end the query in the midst of it."""
    template = "{{topic}}-{{partition}}"
    options = {"path": "s3://b12/", "rows": rows, "file.name.template": template}
    source = HeadraceSource(CaseInsensitiveDict(options))

    with pytest.raises(FrameRefused, match=r"or a member of it, is NOT NULL, and may be null here. Give it"):
        source.reader(schema)


_PARQUET_ALONE = "which Parquet alone has: set input.format=parquet, or give the column as string."
_NOT_READ = "which is not read: give the column as string, which has values as JSON."


@pytest.mark.parametrize(
    ("given", "column", "sentence"),
    [
        ("auto", TimeType(), f"has time(6), {_PARQUET_ALONE}"),
        ("csv", DayTimeIntervalType(), f"has interval day to second, {_PARQUET_ALONE}"),
        ("jsonl", ArrayType(MapType(LongType(), StringType())), f"has map<bigint,string>, {_PARQUET_ALONE}"),
        ("parquet", StructType().add("v", VariantType()), f"has variant, {_NOT_READ}"),
        (
            "parquet",
            MapType(StringType(), YearMonthIntervalType()),
            f"has interval year to month, {_NOT_READ}",
        ),
        ("auto", CalendarIntervalType(), f"has interval, {_NOT_READ}"),
        ("auto", NullType(), f"has void, {_NOT_READ}"),
    ],
)
def test_columns_of_types_that_no_value_has(given: str, column: DataType, sentence: str) -> None:
    """They are refused by name: otherwise each row would be a bad one."""
    options = {"path": "s3://b12/", "rows": "columns", "input.format": given}
    schema = StructType().add("n", "long").add("c", column)

    with pytest.raises(FrameRefused) as raised:
        HeadraceSource(CaseInsensitiveDict(options)).reader(schema)
    assert str(raised.value) == f"The column c of the schema {sentence}"


@pytest.mark.parametrize(
    ("wrapped", "most"),
    [(ArrayType, 62), (lambda kind: MapType(StringType(), kind), 31)],
    ids=["list", "map"],
)
def test_columns_that_are_nested_too_deep(wrapped: Callable[[DataType], DataType], most: int) -> None:
    """Arrow hands no more to Spark: each query of such a column would end in its error."""
    options = {"path": "s3://b12/", "rows": "columns", "input.format": "parquet"}
    column: DataType = LongType()
    for _ in range(most):
        column = wrapped(column)
    HeadraceSource(CaseInsensitiveDict(options)).reader(StructType().add("c", column))

    deeper = StructType().add("n", "long").add("c", wrapped(column))
    with pytest.raises(FrameRefused, match=r"column c of the schema is nested 6\d levels deep.* as string"):
        HeadraceSource(CaseInsensitiveDict(options)).reader(deeper)
    with pytest.raises(FrameRefused, match=r"remove schema\.json at state\.path, and it is inferred"):
        refuse_too_deep(deeper, is_inferred=True)


@pytest.mark.parametrize("column", [TimeType(), DayTimeIntervalType(), MapType(LongType(), StringType())])
def test_types_that_parquet_alone_has(column: DataType) -> None:
    """They are taken where all objects are Parquet."""
    options = {"path": "s3://b12/", "rows": "columns", "input.format": "parquet"}
    HeadraceSource(CaseInsensitiveDict(options)).reader(StructType().add("c", column))


def test_counterparts_of_options_of_others_exist() -> None:
    """Each sentence names options that there are, and is about one that is not ours."""
    ours = {one.name for one in (*OWN, *SHARED)}
    for name, sentence in refused_options._COUNTERPARTS.items():
        assert set(re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)+", sentence)) <= ours, sentence
        assert refused_options.counterpart(f"cloudFiles.{name}") == sentence
    assert {name.lower() for name in ours} & refused_options._COUNTERPARTS.keys() == {
        "maxfilespertrigger",
        "maxbytespertrigger",
    }
    assert refused_options.counterpart("nothing") is None


@pytest.mark.parametrize(
    "options",
    [
        {"input.format": "text", "text.pattern": "alb"},
        {"input.format": "json", "json.path": "$.Records[*]"},
        {"key.source": "object_key", "record.timestamp": "produce", "record.headers": "none"},
        {"key.source": "none", "value.source": "field:after", "input.format": "jsonl"},
    ],
)
def test_lines_by_a_pattern_and_inner_arrays_have_columns(options: dict[str, str]) -> None:
    """Their rows are JSON objects; what makes nothing of records is taken."""
    assert reading_settings({"path": "s3://b12/", "rows": "columns", **options}).rows is Rows.COLUMNS


@pytest.mark.parametrize("rows", ["records", "columns"])
@pytest.mark.parametrize(
    ("template", "topic"),
    [
        ("archive/orders/{{partition}}-{{start_offset}}", NO_TOPIC),
        ("topics/orders/{{partition}}-{{start_offset}}", NO_TOPIC),
        ("my-topic/.*", NO_TOPIC),
        (".*", NO_TOPIC),
        ("topics/{{topic}}/{{partition}}", None),
        ("{{ topic }}/.*", None),
    ],
)
def test_a_template_names_a_topic_by_its_variable(rows: str, template: str, topic: str | None) -> None:
    """Its letters in a folder's name were taken for it, and a topic was asked for."""
    found = reading_settings({"path": "s3://b12/", "rows": rows, "file.name.template": template})
    assert found.shared.routing.topic == topic


@pytest.mark.parametrize(
    ("state_path", "key", "is_state"),
    [
        ("s3://b12/in/state", "in/state/entries/1.json", True),
        ("s3a://b12/in/state/", "in/state/log.json", True),
        ("s3://b12/in/state", "in/statement.json", False),
        ("s3://other/in/state", "in/state/log.json", False),
        ("/in/state", "in/state/log.json", False),
        (None, "in/state/log.json", False),
    ],
)
def test_files_of_the_log_are_no_objects_of_the_query(
    state_path: str | None, key: str, is_state: bool
) -> None:
    """Where it lies within what is read: each batch would find the entry of the one before, without end."""
    given = {"path": "s3://b12/in/", **({} if state_path is None else {"state.path": state_path})}

    assert reading_settings(given).is_state(key) == is_state


@pytest.mark.parametrize(
    ("master", "python", "expected", "path"),
    [
        ("local[2]", "python3", sys.executable, f"{FOLDER}:/mine"),
        ("local[2]", "/opt/python", "/opt/python", f"{FOLDER}:/mine"),
        ("spark://host:7077", "python3", "python3", "/mine"),
    ],
)
def test_a_local_session_runs_the_python_that_registers(
    master: str, python: str, expected: str, path: str
) -> None:
    """Unless it names another; executors of a cluster have their own. What is installed is imported."""
    context = SimpleNamespace(master=master, pythonExec=python, environment={"PYTHONPATH": "/mine"})
    registered: list[Any] = []
    session: Any = SimpleNamespace(_sc=context, dataSource=SimpleNamespace(register=registered.append))
    register(session)
    register(session)

    assert context.pythonExec == expected
    assert context.environment == {"PYTHONPATH": path}
    assert [one.name() for one in registered] == ["headrace", "headrace"]


def test_a_refusal_shows_no_causes(tmp_path: Path) -> None:
    """PySpark would show each of them with its stack. Who debugs has them by Python's logging."""
    said = io.StringIO()
    logger, handler = logging.getLogger("spark.frames"), logging.StreamHandler(said)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    (tmp_path / "file").touch()
    given = {
        "path": "s3://b12/",
        "state.path": str(tmp_path / "file"),
        "aws.s3.endpoint": "http://127.0.0.1:9",
    }
    given |= {"aws.access.key.id": "test", "aws.secret.access.key": "test"}
    reader = HeadraceSource(given).streamReader(RECORDS)

    with pytest.raises(
        FrameRefused, match=r"file' may not be read and written \(Not a directory\)"
    ) as raised:
        reader.initialOffset()
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    shown = traceback.TracebackException.from_exception(raised.value, compact=True)
    assert "NotADirectoryError" not in "".join(shown.format())
    assert said.getvalue().startswith(str(raised.value))
    assert "NotADirectoryError" in said.getvalue()


def test_a_frame_that_holds_no_records() -> None:
    """It is refused before a task begins, as are options of reads."""
    with pytest.raises(FrameRefused, match="has no column partition, offset"):
        writing_settings(
            {"path": "s3://b12/"},
            StructType().add("topic", "string").add("value", "binary"),
            overwrites=False,
        )
    given = {"path": "s3://b12/", "state.path": "s"}
    with pytest.raises(FrameRefused, match=r'outputMode\("complete"\) gives all rows of its result'):
        HeadraceSource(given).streamWriter(_RECORDS, overwrite=True)
    assert HeadraceSource(given).streamWriter(_RECORDS, overwrite=False) is not None
    with pytest.raises(FrameRefused, match="rows: is an option of reads"):
        writing_settings({"path": "s3://b12/", "rows": "columns"}, _RECORDS, overwrites=False)


def test_an_object_is_held_against_the_time_that_was_given() -> None:
    """Which may be finer than S3's: one of the same millisecond is before it or after it."""
    found = object_of(1, 1)
    for option, text, is_in in (
        ("modifiedAfter", "1970-01-01T00:00:01", False),
        ("modifiedAfter", "1970-01-01T00:00:01.000001", False),
        ("modifiedAfter", "1970-01-01T01:00:00.999999+01:00", True),
        ("modifiedBefore", "1970-01-01T00:00:01", False),
        ("modifiedBefore", "1970-01-01T00:00:01.000001", True),
        ("modifiedBefore", "1970-01-01T00:00:00.999999", False),
    ):
        assert reading_settings({"path": "s3://b12/", option: text}).is_in_time(found) is is_in, (
            option,
            text,
        )


def test_a_stream_is_refused_at_its_first_call() -> None:
    """PySpark showed an error of its own last where it got no reader: `cannot access local variable`."""
    said = "state.path is missing: a stream keeps its discovery log there."
    reader: Any = HeadraceSource({"path": "s3://b12/"}).streamReader(_RECORDS)
    for call in (
        reader.initialOffset,
        reader.prepareForTriggerAvailableNow,
        partial(reader.latestOffset, {}, reader.getDefaultReadLimit()),
        partial(reader.partitions, {}, {}),
    ):
        with pytest.raises(FrameRefused) as refused:
            call()
        assert str(refused.value) == said
    reader.stop()


@pytest.mark.parametrize("place", ["s3://b12", "s3:///state", "hdfs://name/state", "file://host/state", ""])
def test_a_state_path_that_is_no_place(place: str) -> None:
    """Before any row is read or sent: a writer needs it at its first commit, and a task at a bad row."""
    given = {"path": "s3://b12/", "state.path": place}
    for refused in (
        lambda: HeadraceSource(given).streamReader(_RECORDS).initialOffset(),
        lambda: HeadraceSource(given).reader(_RECORDS),
        lambda: HeadraceSource(given).streamWriter(_RECORDS, overwrite=False),
        lambda: HeadraceSource({**given, "no.option": "1"}).writer(_RECORDS, overwrite=False),
    ):
        with pytest.raises(FrameRefused, match=r"state\.path = '.*': expected .*s3://bucket/prefix"):
            refused()


_CONFLUENTS = "io.confluent.connect.avro.AvroConverter"
_GLUES = "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter"


@pytest.mark.parametrize(
    "options",
    [
        {"value.converter": _CONFLUENTS, "schema.registry.url": "http://r:1"},
        {"value.converter": _CONFLUENTS, "value.converter.schema.registry.url": "http://r:1"},
        {
            "key.converter": _CONFLUENTS,
            "key.converter.schema.registry.url": "https://r:1",
            "key.converter.basic.auth.credentials.source": "USER_INFO",
            "key.converter.basic.auth.user.info": "me:secret",
            "schema.registry.ssl.ca.location": __file__,
        },
        {"value.converter": _GLUES, "aws.glue.region": "eu-central-1"},
        {"value.converter": _GLUES, "value.converter.region": "eu-central-1"},
    ],
)
def test_a_writer_takes_converters_of_registries(options: dict[str, str]) -> None:
    """It asked for the URL of theirs, and refused it as an option."""
    settings = writing_settings({"path": "s3://b12/", **options}, _RECORDS, overwrites=False)
    converters = settings.sink.sink.converters
    assert (converters.key.registry or converters.value.registry) is not None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"value.converter": _CONFLUENTS}, "needs schema.registry.url"),
        ({"schema.registry.auto.register.schemas": "true"}, 'is not an option of format("headrace")'),
        ({"output.layout": "quix"}, "could meet; set file.name.unique=assumed where none do"),
        *(
            ({name: value}, f'{name}: is not an option of format("headrace"); objects close with their batch')
            for name, value in {
                "rotate.age.ms": "1000",
                "rotate.age.from": "closed",
                "rotate.schedule.ms": "1000",
                "rotate.on.stop": "false",
            }.items()
        ),
        ({"Rotate.Age.Ms": "1"}, "the query's trigger, or rotate.span.ms, decides"),
        ({"value.source": "row"}, 'is not an option of format("headrace")'),
    ],
)
def test_options_that_a_writer_does_not_have(options: dict[str, str], sentence: str) -> None:
    """And none that a sentence names, such as topics, which rows name themselves."""
    with pytest.raises(FrameRefused) as refused:
        writing_settings({"path": "s3://b12/", **options}, _RECORDS, overwrites=False)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("value", IntegerType()),
        ("key", StructType().add("a", "integer")),
        ("headers", MapType(StringType(), StringType())),
        ("headers", ArrayType(StructType().add("key", "string").add("value", "string"))),
        ("headers", ArrayType(StringType())),
        ("timestamp", LongType()),
        ("timestamp", StringType()),
        ("timestamp", TimestampNTZType()),
        ("timestamp", DateType()),
    ],
)
def test_a_column_of_another_type_is_named(column: str, kind: Any) -> None:
    """Before a task begins; Arrow's own words would name neither."""
    schema = StructType([field for field in _RECORDS.fields if field.name != column]).add(column, kind)
    said = re.escape(f"The column {column} of the frame is {kind.simpleString()}: ")
    with pytest.raises(FrameRefused, match=said):
        writing_settings({"path": "s3://b12/"}, schema, overwrites=False)


@pytest.mark.parametrize(
    "header",
    [
        StructType().add("value", "binary").add("key", "string"),
        StructType().add("key", "string").add("value", "binary").add("more", "integer"),
    ],
)
def test_members_of_headers_are_known_by_their_names(header: StructType) -> None:
    """In any order, as they are read by them."""
    schema = StructType([*_RECORDS.fields]).add("headers", ArrayType(header))
    assert writing_settings({"path": "s3://b12/"}, schema, overwrites=False).sink is not None


_HEADER: Any = pa.struct([("key", pa.string()), ("value", pa.binary())])


@pytest.mark.parametrize(
    "changed",
    [
        {"partition": pa.array([3_000_000_000])},
        {"partition": pa.array([1.5])},
        {"offset": pa.array(["x"])},
        {"timestampType": pa.array(["create"])},
        {"headers": pa.array([[{"key": None, "value": b"x"}]], pa.list_(_HEADER))},
        {"headers": pa.array([[None]], pa.list_(_HEADER))},
    ],
    ids=["large", "fraction", "text", "type", "no name", "no header"],
)
def test_a_value_that_no_record_has_is_refused(changed: dict[str, Any]) -> None:
    """In a sentence that names the column, and before an object has it that no restore would read."""
    columns: dict[str, Any] = {"topic": ["a"], "partition": [0], "offset": [0], "value": [b"v"], **changed}
    named = next(iter(changed)).removesuffix("s")
    with pytest.raises(FrameRefused, match=rf"A row of the frame has a {named} (that is not|without a key)"):
        list(records_of(record_columns(pa.RecordBatch.from_pydict(columns))))


@pytest.mark.parametrize("kind", [-2, 2, 2**62])
def test_a_type_of_time_that_kafka_does_not_have_is_refused(kind: int) -> None:
    """It was written as if the producer had given the time."""
    columns: dict[str, Any] = {"topic": ["a"] * 4, "partition": [0] * 4, "offset": [0, 1, 2, 3]}
    for kinds, refused in (
        ([-1, 0, 1, None], None),
        ([0, kind, 0, 0], f"has timestampType {kind}: Kafka has -1"),
    ):
        batch = pa.RecordBatch.from_pydict({**columns, "timestampType": pa.array(kinds)})
        if refused is None:
            assert next(records_of(record_columns(batch))).timestamp_types.tolist() == [0, 1, 2, 1]
        else:
            with pytest.raises(FrameRefused, match=refused):
                list(records_of(record_columns(batch)))


@pytest.mark.parametrize(("column", "place"), [("partition", (-1, 4)), ("offset", (0, -4))])
def test_a_negative_place_is_refused(column: str, place: tuple[int, int]) -> None:
    """No restore would read an object of that name."""
    batch = pa.RecordBatch.from_pydict(
        {"topic": ["a"], "partition": pa.array([place[0]]), "offset": pa.array([place[1]])}
    )
    with pytest.raises(FrameRefused, match=f"has {column} {min(place)}: "):
        list(records_of(batch))


@pytest.mark.parametrize("topic", ["", "a/b", "x" * 250, ".", ".."])
def test_a_topic_that_kafka_would_not_have_is_refused(topic: str) -> None:
    """Its key would be read as that of another topic and partition."""
    batch = pa.RecordBatch.from_pydict({"topic": [topic], "partition": [0], "offset": [0]})
    with pytest.raises(FrameRefused, match="A row of the frame has the topic "):
        list(records_of(record_columns(batch)))


@pytest.mark.parametrize("microseconds", [-1, -999, -1_001, -5_000_000, -62_135_596_800_000_001])
def test_a_time_before_1970_is_refused(microseconds: int) -> None:
    """Those of the last millisecond before it became none, without a word; the year 0 was a traceback."""
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["a", "a"],
            "partition": [0, 0],
            "offset": [0, 1],
            "timestamp": pa.array([5, microseconds], pa.timestamp("us", "UTC")),
        }
    )
    with pytest.raises(FrameRefused, match=r"has the timestamp (1969|0000)-.*: Kafka has none before 1970"):
        record_columns(batch)


def test_milliseconds_before_1970_are_refused() -> None:
    """As `foreach_batch` has them: an archive had rows that no restore takes."""
    batch = pa.RecordBatch.from_pydict(
        {"topic": ["a"], "partition": [0], "offset": [0], "timestamp_ms": [-60_000]}
    )
    with pytest.raises(FrameRefused, match=r"has the timestamp 1969-12-31 23:59:00.* \(UTC\): Kafka"):
        list(records_of(batch))


def test_columns_that_are_no_records_are_named() -> None:
    """They are not written, and a user may have expected them to be."""
    schema = StructType([*_RECORDS.fields]).add("event_id", "binary")
    with structlog.testing.capture_logs() as lines:
        writing_settings({"path": "s3://b12/"}, schema, overwrites=False)
    assert [line["columns"] for line in lines if line["event"] == "columns_left_out"] == [["event_id"]]


def test_records_of_any_frame() -> None:
    """Columns that are not there are null, numbers and times of other types are taken."""
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["a", "a", "a"],
            "partition": pa.array([1, 1, 1], pa.int64()),
            "offset": pa.array([4, 5, 6], pa.int32()),
            "value": pa.array([b"x", None, b"z"]),
            "timestamp": pa.array([1_500_000, None, -1_000], pa.timestamp("us", "UTC")),
        }
    )
    (found,) = records_of(record_columns(batch))

    assert (found.topic, found.partition, found.offsets.tolist()) == ("a", 1, [4, 5, 6])
    assert (found.values.get(0), found.values.get(1), found.keys.get(0)) == (b"x", None, None)
    assert (found.timestamps_ms.tolist(), found.timestamp_types.tolist()) == ([1500, -1, -1], [1, 1, 1])


def task_of(**options: str) -> ReadTask:
    """What tasks of a read get."""
    settings = reading_settings({"path": "s3://b12/in/", **options})
    return ReadTask(settings, pa.schema([("n", pa.int64())]), frozenset({"topic"}), is_inferred=True)


def test_what_tasks_get_is_the_same_there() -> None:
    """Pickled as Spark pickles it, with all that is in it."""
    task = task_of(rows="columns", maxFilesPerTrigger="3")
    writing = writing_settings({"path": "s3://b12/"}, _RECORDS, overwrites=True)

    for each in (task, writing):
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301  # our own
    _, (_, shapes, _) = task.__reduce__()
    _, (_, shapes, _) = task.__reduce__()
    assert "headrace.options.settings:S3Settings" in shapes
    assert "object" in shapes["headrace.model.slot_protocol:Split"]


def test_other_fields_are_refused_before_anything_is_read() -> None:
    """What is in the pickle would be taken for something else."""
    _, (kind, shapes, _) = task_of().__reduce__()
    name = "spark.frames.frame_options:FramesSettings"

    for other in (
        {name: shapes[name][1:]},
        {"spark.frames.frame_options:Gone": ("x",)},
        {"gone:Gone": ("x",)},
    ):
        with pytest.raises(FrameRefused, match="have different versions of Headrace"):
            received(kind, shapes | other, b"no pickle")


@pytest.mark.long
def test_an_executor_with_an_older_headrace_refuses_its_task(tmp_path: Path) -> None:
    """Fields are pickled by their place: with one more, each would have the value of another."""
    content = pickle.dumps(task_of())
    keeper = Keeper()
    older = tmp_path / "older.zip"
    field = "    on_superseded: OnSuperseded\n"
    with zipfile.ZipFile(build_code_archive(keeper)) as ours, zipfile.ZipFile(older, "w") as archive:
        for name in ours.namelist():
            text = ours.read(name).decode()
            if name == "spark/frames/frame_options.py":
                assert field in text
                text = text.replace(field, "").replace("on_superseded=values[ON_SUPERSEDED.name],", "")
            archive.writestr(name, text)
    program = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    done = subprocess.run(
        ["env", f"PYTHONPATH={older}", sys.executable, "-c", program],
        input=content,
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )

    assert (
        "driver and this executor have different versions of Headrace (FramesSettings has other"
        in done.stderr.decode()
    )


def object_of(number: int, size: int) -> S3Object:
    """An object of the bucket."""
    return S3Object(id=ObjectId("b12", f"in/{number}", f"e{number}"), size=size, last_modified_ms=1000)


def test_partitions_are_the_same_for_the_same_batch() -> None:
    """All splits in their order, about as many partitions as there are tasks, none without a split."""
    route: Any = None
    splits = [
        split
        for n in range(50)
        for split in splits_of(object_of(n, n * 2**20), route, (0, 5, 9) if n == 49 else ())
    ]
    given = reading_settings({"path": "s3://b12/in/", "split.bytes": str(2**40), "tasks.max": "4"})
    parts = partitioned(splits, given)

    assert [split for part in parts for split in part.splits] == splits
    assert 4 <= len(parts) <= 5
    assert [part.splits for part in partitioned(splits, given)] == [part.splits for part in parts]
    two = dataclasses.replace(given, tasks=2)
    assert [len(part.splits) for part in partitioned(splits[:8], two)] == [5, 2, 1]


def test_who_decides_that_an_object_is_left_out() -> None:
    """The task that has all its splits, which there is with `on.superseded=skip`; none where it is shared."""
    route: Any = None
    whole, split = object_of(0, 2**20), object_of(1, 12 * 2**20)
    splits = [*splits_of(whole, route), *splits_of(split, route, (0, 4 * 2**20, 8 * 2**20, 12 * 2**20))]
    given = reading_settings({"path": "s3://b12/in/", "tasks.max": "4"})
    shared = partitioned(splits, given)
    skipping = partitioned(splits, dataclasses.replace(given, on_superseded=OnSuperseded.SKIP))
    alone = partitioned(splits, dataclasses.replace(given, tasks=1))

    assert [len(part.splits) for part in shared] == [1, 1, 1, 1]
    assert [part.shared for part in shared] == [frozenset(), *3 * (frozenset({split.id}),)]
    assert [len(part.splits) for part in skipping] == [1, 3]
    assert [len(part.splits) for part in alone] == [4]
    assert not any(part.shared for part in (*skipping, *alone))


def test_the_commands_show_a_log(tmp_path: Path) -> None:
    """What is known, what is committed, what is pending; and what the next batch would have."""
    log = DiscoveryLog.open(
        DirectoryStore(tmp_path / "log"),
        bucket="b12",
        prefix="in/",
        baseline=lambda: Baseline(start_key="in/0"),
    )
    for batch in (1, 2):
        log.append([LoggedObject(f"in/{batch}", f"e{batch}", 1024, 1000)])
    log.commit(1)
    options = {
        "aws.s3.bucket.name": "b12",
        "aws.s3.prefix": "in/",
        "state.path": str(tmp_path / "log"),
        "object.exclude": "*9",
    }
    (tmp_path / "query.json").write_text(json.dumps(options))
    shown = CliRunner().invoke(app, ["status", str(tmp_path / "query.json")])
    as_json = CliRunner().invoke(app, ["status", str(tmp_path / "query.json"), "--json"])

    assert "known     2 objects, the last batch is 2" in shown.output
    assert "committed batch 1, at" in shown.output
    assert "pending   1 object, 1" in shown.output
    assert "no log" not in shown.output
    assert json.loads(as_json.output)["pending_bytes"] == 1024
    (tmp_path / "other.json").write_text(json.dumps({**options, "state.path": str(tmp_path / "other")}))
    without = CliRunner().invoke(app, ["status", str(tmp_path / "other.json")])
    assert "no log    is there yet: the query has not run, or its state.path is another one" in without.output
    assert not (tmp_path / "other").exists()
    plan = log_plan(settings_of(options), [object_of(n, 10) for n in (0, 1, 2, 3, 9)])
    assert (plan["pending_objects"], plan["in_log"]) == (1, 2)
    assert plan["left_out"] == {"excluded": 1, "start_key": 1}
