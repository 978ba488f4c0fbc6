"""Options of other vendors that are accepted and decide nothing: a warning names each, and only these."""

import json
from collections.abc import Mapping
from typing import Final

import pytest

from headrace.options import Settings
from headrace.options.vendor import Fate
from headrace.options.vendor_translation import TranslatedLine
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file, own_options

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_FORMAT: Final = "io.confluent.connect.s3.format."
_PARTITIONER: Final = "io.confluent.connect.storage.partitioner."
_NAME: Final = {"name": "n", "bootstrap.servers": "127.0.0.1:9092"}
_CONFLUENT: Final = {
    **_NAME,
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "t",
    "s3.bucket.name": "bucket",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": f"{_FORMAT}json.JsonFormat",
    "flush.size": "100",
    "key.converter": _TEXT,
    "value.converter": _JSON,
}
_AVRO: Final = {"format.class": f"{_FORMAT}avro.AvroFormat"}
_RAW: Final = {"format.class": f"{_FORMAT}bytearray.ByteArrayFormat"}
_HOURLY: Final = {
    "partitioner.class": f"{_PARTITIONER}HourlyPartitioner",
    "locale": "en",
    "timezone": "UTC",
}
_TIMED: Final = {
    **_HOURLY,
    "partitioner.class": f"{_PARTITIONER}TimeBasedPartitioner",
    "path.format": "YYYY/MM",
    "partition.duration.ms": "60000",
}
_FIELD: Final = {"partitioner.class": f"{_PARTITIONER}FieldPartitioner", "partition.field.name": "a"}
_GENERIC: Final = {
    **_NAME,
    "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
    "s3.bucket.name": "bucket",
    "format.class": f"{_FORMAT}json.JsonFormat",
    "value.converter": _JSON,
    "value.converter.schemas.enable": "false",
    "mode": "GENERIC",
    "topic.regex.list": "t:.*",
}
_AIVEN: Final = {
    **_NAME,
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "topics": "t",
    "aws.s3.bucket.name": "bucket",
    "key.converter": _BYTES,
    "value.converter": _BYTES,
}
_AIVEN_TIMES: Final = {
    "file.name.template": "{{topic}}/{{timestamp:unit=yyyy}}/{{partition}}-{{start_offset}}",
    "file.name.timestamp.source": "event",
    "file.name.timestamp.timezone": "Europe/Berlin",
}
_LENSES: Final = {
    **_NAME,
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "topics": "t",
    "key.converter": _TEXT,
    "value.converter": _JSON,
    "connect.s3.kcql": "INSERT INTO bucket:pre SELECT * FROM t",
}
_LENSES_SOURCE: Final = {
    **_NAME,
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
    "value.converter": _TEXT,
    "connect.s3.kcql": "INSERT INTO t SELECT * FROM bucket:pre STOREAS `json`",
}
_EXTRACTOR: Final = "connect.s3.source.partition.extractor."

# A configuration, and options that decide nothing in it.
_NOTHING: Final = {
    "confluent": (
        _CONFLUENT,
        {
            "path.format": "YYYY",
            "partition.duration.ms": "3600000",
            "locale": "de",
            "timezone": "Europe/Berlin",
            "timestamp.extractor": "Record",
            "timestamp.field": "ts",
            "partition.field.name": "a",
            "rotate.interval.ms": "60000",
            "rotate.file.on.partition.change": "false",
            "avro.codec": "snappy",
            "parquet.codec": "gzip",
            "s3.compression.level": "9",
            "format.bytearray.extension": ".x",
            "format.bytearray.separator": ";",
            "enhanced.avro.schema.support": "false",
            "connect.meta.data": "false",
            "allow.optional.map.keys": "true",
            "keys.format.class": f"{_FORMAT}json.JsonFormat",
            "headers.format.class": f"{_FORMAT}json.JsonFormat",
            "tombstone.encoded.partition": "x",
            "s3.object.tagging.key.value.pairs": "team:a",
            "parquet.avro.write-old-list-structure": "false",
        },
    ),
    "confluent avro": (
        {**_CONFLUENT, **_AVRO},
        {
            "s3.compression.type": "gzip",
            "s3.compression.level": "9",
            "json.decimal.format": "NUMERIC",
            "format.bytearray.separator": ";",
        },
    ),
    "confluent avro with keys": (
        {
            **_CONFLUENT,
            **_AVRO,
            "store.kafka.keys": "true",
            "keys.format.class": f"{_FORMAT}json.JsonFormat",
            "s3.compression.type": "gzip",
        },
        {"s3.compression.level": "9", "format.bytearray.separator": ";"},
    ),
    "confluent with our Avro": (
        # Its compression is still that of JSON.
        {**_CONFLUENT, "output.format": "avro"},
        {"avro.codec": "snappy", "json.decimal.format": "NUMERIC"},
    ),
    "confluent hourly": (
        {**_CONFLUENT, **_HOURLY},
        {
            "path.format": "YYYY",
            "partition.duration.ms": "60000",
            "timestamp.field": "ts",
            "rotate.file.on.partition.change": "false",
        },
    ),
    "confluent source": (
        _GENERIC,
        {"file.delim": "_", "tombstone.encoded.partition": "x", "format.bytearray.separator": ";"},
    ),
    "aiven by prefix and the clock": (
        {**_AIVEN, "aws.s3.prefix": "new/", "rotate.schedule.ms": "86400000"},
        {"file.name.timestamp.timezone": "Europe/Berlin"},
    ),
    "aiven by no clock": (
        {**_AIVEN, "rotate.schedule.ms": "0"},
        {"file.name.timestamp.timezone": "Europe/Berlin"},
    ),
    "aiven": (
        _AIVEN,
        {
            "file.name.timestamp.timezone": "Europe/Berlin",
            "file.name.timestamp.source": "event",
            "timestamp.timezone": "Europe/Berlin",
            "timestamp.source": "event",
            "avro.codec": "snappy",
            "format.output.envelope": "false",
        },
    ),
    "aiven jsonl": (
        {**_AIVEN, "format.output.type": "jsonl"},
        {"format.output.fields.value.encoding": "none", "avro.codec": "snappy"},
    ),
    "aiven with new names": (
        {
            **_AIVEN,
            "aws.s3.prefix": "new/",
            "file.compression.type": "none",
            "format.output.fields": "key,value",
        },
        {
            "aws_s3_prefix": "old/",
            "aws_s3_bucket": "old",
            "output_compression": "gzip",
            "output_fields": "key",
            "timestamp.source": "event",
            "file.name.timestamp.source": "event",
        },
    ),
    "lenses": (
        {**_LENSES, "connect.s3.aws.region": "eu-west-1"},
        {"aws.region": "us-east-1", "connect.s3.padding.length": "5", "connect.s3.compression.level": "3"},
    ),
    "lenses source": (_LENSES_SOURCE, {f"{_EXTRACTOR}type": "none", f"{_EXTRACTOR}regex": "none"}),
}
# Where each of the same options decides something.
_SOMETHING: Final = {
    "confluent": (
        {
            **_CONFLUENT,
            **_TIMED,
            "rotate.interval.ms": "60000",
            "rotate.file.on.partition.change": "false",
            "timestamp.extractor": "RecordField",
            "timestamp.field": "ts",
            "s3.compression.type": "gzip",
            "s3.compression.level": "9",
            "json.decimal.format": "NUMERIC",
            "store.kafka.keys": "true",
            "store.kafka.headers": "true",
            "keys.format.class": f"{_FORMAT}bytearray.ByteArrayFormat",
            "headers.format.class": f"{_FORMAT}avro.AvroFormat",
            "format.bytearray.extension": ".x",
            "format.bytearray.separator": ";",
            "avro.codec": "snappy",
            "enhanced.avro.schema.support": "false",
            "connect.meta.data": "false",
            "allow.optional.map.keys": "true",
            "behavior.on.null.values": "write",
            "tombstone.encoded.partition": "x",
            "s3.object.tagging": "true",
            "s3.object.tagging.key.value.pairs": "team:a",
        }
    ),
    "confluent by fields": {
        **_CONFLUENT,
        **_FIELD,
        "rotate.schedule.interval.ms": "60000",
        "timezone": "UTC",
    },
    "confluent with our format": {
        **_CONFLUENT,
        **_AVRO,
        "output.format": "jsonl",
        "json.decimal.format": "NUMERIC",
    },
    "confluent with our format by a reference": {
        **_CONFLUENT,
        **_AVRO,
        "output.format": "${env:FORMAT}",
        "json.decimal.format": "NUMERIC",
    },
    "confluent with our keys": {
        **_CONFLUENT,
        "sidecars": "keys, headers",
        "sidecars.headers.format": "jsonl",
        "enhanced.avro.schema.support": "false",
    },
    "confluent with our names": {
        **_CONFLUENT,
        "file.name.template": "{{topic}}/{{timestamp:unit=yyyy}}/{{partition}}-{{start_offset}}",
        "timezone": "Europe/Berlin",
    },
    "confluent raw": {**_CONFLUENT, **_RAW, "value.converter": _BYTES, "format.bytearray.separator": ";"},
    "aiven by times": {**_AIVEN, **_AIVEN_TIMES, "output_compression": "gzip", "output_fields": "key"},
    "aiven by prefix": {
        **_AIVEN,
        "aws.s3.prefix": "{{timestamp:unit=yyyy}}/",
        "timestamp.source": "event",
        "timestamp.timezone": "UTC",
        "format.output.fields.value.encoding": "none",
    },
    "aiven by local days": {
        **_AIVEN,
        "aws.s3.prefix": "{{local_date}}/",
        "timestamp.timezone": "Asia/Tokyo",
    },
    "aiven by the clock with its own names": {
        **_AIVEN,
        "file.name.timestamp.timezone": "Asia/Tokyo",
        "rotate.schedule.ms": "86400000",
    },
    "aiven by the clock": {
        **_AIVEN,
        "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}",
        "file.name.timestamp.timezone": "Asia/Tokyo",
        "rotate.schedule.ms": "86400000",
    },
    "aiven avro": {**_AIVEN, "format.output.type": "avro", "avro.codec": "snappy"},
    "lenses by old names": {**_LENSES, "aws.region": "us-east-1"},
    "lenses source": {**_LENSES_SOURCE, f"{_EXTRACTOR}type": "hierarchical"},
}


def _settings(configuration: Mapping[str, str]) -> Settings:
    environment = {"FORMAT": "jsonl"}
    return load(json.dumps(configuration), kind="json", environment=environment, read_file=no_file)


def _translated(configuration: Mapping[str, str]) -> tuple[tuple[TranslatedLine, ...], tuple[str, ...]]:
    settings = _settings(configuration)
    assert settings.translated is not None
    return settings.translated, settings.warnings


def _needless(translated: tuple[TranslatedLine, ...]) -> set[str]:
    return {line.option for line in translated if line.fate is Fate.NEEDLESS}


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, option) for name, (_, options) in _NOTHING.items() for option in options],
)
def test_a_line_that_decides_nothing_is_named(name: str, option: str) -> None:
    """Its branch is not taken, so what is written is the same without it."""
    configuration, options = _NOTHING[name]

    translated, warnings = _translated({**configuration, option: options[option]})

    assert option in _needless(translated)
    assert sum(option in warning for warning in warnings if "nothing depends on them" in warning) == 1


@pytest.mark.parametrize("name", _SOMETHING)
def test_a_line_that_decides_something_is_not(name: str) -> None:
    """The same options next to what they belong to."""
    translated, _ = _translated(_SOMETHING[name])

    assert not _needless(translated)


def test_a_level_of_keys_alone_is_not_said_to_be_of_no_effect_there() -> None:
    """In the other connector it is that of all JSON and bytes."""
    configuration, options = _NOTHING["confluent avro with keys"]
    translated, _ = _translated({**configuration, **options})
    (line,) = (line for line in translated if line.option == "s3.compression.level")
    assert "gzip's own level here" in line.note


def test_the_zone_of_the_clock_is_taken_without_a_template() -> None:
    """Objects close by it, whatever they are called."""
    settings = _settings(_SOMETHING["aiven by the clock with its own names"])
    assert own_options(settings)["file.name.timestamp.timezone"] == "Asia/Tokyo"
