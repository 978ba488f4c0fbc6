"""Every codec that a maker's configuration can name: written, or refused with the codecs that are."""

from typing import Any, Final, NamedTuple

import pytest

from headrace.options import SettingsError
from headrace.options.choices import Compression
from tests.support.sink_archives import sink_settings

_SELECT: Final = "INSERT INTO archive SELECT * FROM orders"
_LENSES: Final = "connect.s3.compression.codec"


class _Choice(NamedTuple):
    """An option of a maker's in one of its formats: what it takes, and what else the maker's own may name."""

    configuration: dict[str, Any]
    option: str
    written: dict[str, Compression]
    refused: tuple[str, ...]


def _aiven(form: str) -> dict[str, Any]:
    return {
        "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "aws.s3.bucket.name": "archive",
        "aws.s3.region": "us-east-1",
        "format.output.type": form,
    }


def _confluent(form: str) -> dict[str, Any]:
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": f"io.confluent.connect.s3.format.{form.lower()}.{form}Format",
        "s3.bucket.name": "archive",
        "s3.region": "us-east-1",
        "flush.size": "1000",
    }


def _lenses(form: str) -> dict[str, Any]:
    return {
        "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
        "connect.s3.aws.region": "us-east-1",
        "connect.s3.kcql": f"{_SELECT} STOREAS {form}",
        "connect.s3.compression.level": "3",
    }


def _own(layout: str, form: str) -> dict[str, Any]:
    return {
        "connector.class": "HeadraceSink",
        "aws.s3.bucket.name": "archive",
        "aws.s3.region": "us-east-1",
        "output.layout": layout,
        "output.format": form,
    }


_NONE, _GZIP, _SNAPPY = Compression.NONE, Compression.GZIP, Compression.SNAPPY
_ZSTD, _LZ4, _BZIP2, _XZ = Compression.ZSTD, Compression.LZ4, Compression.BZIP2, Compression.XZ
_WHOLE_FILE: Final = {"none": _NONE, "gzip": _GZIP, "snappy": _SNAPPY, "zstd": _ZSTD}
_IN_PARQUET: Final = {**_WHOLE_FILE, "lz4": _LZ4, "brotli": Compression.BROTLI}
_LENSES_ALL: Final = frozenset(
    ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZ0", "LZ4", "BROTLI", "BZIP2", "ZSTD", "DEFLATE", "XZ")
)


def _of_lenses(form: str, **written: Compression) -> _Choice:
    known = {"UNCOMPRESSED": _NONE, **written}
    return _Choice(_lenses(form), _LENSES, known, tuple(sorted(_LENSES_ALL - set(known))))


_CHOICES: Final = {
    "aiven jsonl": _Choice(_aiven("jsonl"), "file.compression.type", _WHOLE_FILE, ("brotli", "lz4")),
    "aiven parquet": _Choice(_aiven("parquet"), "file.compression.type", _WHOLE_FILE, ("brotli", "lz4")),
    "aiven avro": _Choice(_aiven("avro"), "file.compression.type", _WHOLE_FILE, ("brotli", "lz4")),
    "confluent parquet": _Choice(
        _confluent("Parquet"),
        "parquet.codec",
        {"none": _NONE, "snappy": _SNAPPY, "gzip": _GZIP, "zstd": _ZSTD, "lz4_raw": _LZ4},
        ("brotli", "lz4", "lzo"),
    ),
    "confluent avro": _Choice(
        _confluent("Avro"),
        "avro.codec",
        {"null": _NONE, "deflate": _GZIP, "snappy": _SNAPPY, "bzip2": _BZIP2},
        ("xz", "zstandard"),
    ),
    "confluent json": _Choice(
        _confluent("Json"), "s3.compression.type", {"none": _NONE, "gzip": _GZIP}, ("brotli", "zstd")
    ),
    "lenses json": _of_lenses("JSON", GZIP=_GZIP),
    "lenses avro": _of_lenses("AVRO", SNAPPY=_SNAPPY, BZIP2=_BZIP2, DEFLATE=_GZIP, XZ=_XZ, ZSTD=_ZSTD),
    "lenses parquet": _of_lenses(
        "PARQUET", SNAPPY=_SNAPPY, GZIP=_GZIP, LZ4=_LZ4, ZSTD=_ZSTD, BROTLI=Compression.BROTLI
    ),
    "lenses csv": _of_lenses("CSV"),
    "lenses text": _of_lenses("TEXT"),
    "quix json": _Choice(
        _own("quix", "json"), "file.compression.type", {"none": _NONE, "gzip": _GZIP}, ("snappy", "zstd")
    ),
    "quix parquet": _Choice(_own("quix", "parquet"), "file.compression.type", _IN_PARQUET, ("lzo",)),
    "headrace parquet": _Choice(_own("headrace", "parquet"), "file.compression.type", _IN_PARQUET, ("lzo",)),
}


def _given(choice: _Choice, codec: str) -> dict[str, Any]:
    return {
        "topics": "orders",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        **choice.configuration,
        choice.option: codec,
    }


@pytest.mark.parametrize("case", _CHOICES)
def test_a_codec_that_is_written(case: str) -> None:
    """It is the compression of the object, whatever it is called there."""
    choice = _CHOICES[case]
    for codec, wanted in choice.written.items():
        sink = sink_settings(_given(choice, codec)).sink
        assert sink is not None
        assert sink.output.compression is wanted, codec


@pytest.mark.parametrize("case", _CHOICES)
def test_a_codec_that_is_not_written_is_refused_before_the_start(case: str) -> None:
    """By one sentence, which names the option, the codec, and those that are written."""
    choice = _CHOICES[case]
    for codec in choice.refused:
        with pytest.raises(SettingsError) as caught:
            sink_settings(_given(choice, codec))
        (problem,) = map(str, caught.value.problems)
        assert problem.startswith(f"{choice.option} = '{codec}'")
        for name in choice.written:
            assert name in problem, (codec, problem)
