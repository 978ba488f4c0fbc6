"""Aiven's S3 sink for Apache Kafka: its configuration in our options.

Its defaults hold: objects close by the worker's flush interval, hold values alone as csv in base64, and are
gzipped, while their names say so only where the compression is given.
"""

from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.vendor import Vendor
from headrace.options.vendor_translation import Translation
from headrace.vendors.aiven.options import AIVEN_OPTIONS, AVRO_DATA, OLD_SPELLINGS, SAME
from headrace.vendors.aiven.translated_names import max_records, translate_names
from headrace.vendors.connect.options import translate_connect

_FLUSH_MS: Final = "60000"
_LEAST_PART: Final = 5 * 1024 * 1024
_MOST_PART: Final = 128 * 1024 * 1024
_SUFFIXES: Final = {"none": "", "gzip": ".gz", "snappy": ".snappy", "zstd": ".zst"}
_FORMATS: Final = {name: name for name in ("csv", "json", "jsonl", "avro", "parquet")}
_FIELDS: Final = ("key", "value", "offset", "timestamp", "headers")
_ENCODINGS: Final = {"base64": "base64", "none": "none"}
_CODECS: Final = {name: name for name in ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")}


def _translate(given: Translation) -> None:
    translate_connect(given)
    for old, new in OLD_SPELLINGS.items():
        given.rename(old, new)
    for name in SAME:
        given.rename(name, name)
    given.own("output.layout", LayoutName.AIVEN)
    given.own("json.format", "connect")
    form = given.choice("format.output.type", _FORMATS, "csv")
    given.own("output.format", form, by="format.output.type")
    _translate_fields(given, form)
    _translate_compression(given, form)
    _translate_rotation(given)
    _translate_uploads(given)
    for name, value in AVRO_DATA.items():
        if given.text(name, value).lower() != value:
            given.refuse(name, f"is not written in another way than {value}; remove it")


def _translate_fields(given: Translation, form: str) -> None:
    option = "format.output.fields" if given.is_given("format.output.fields") else "output_fields"
    given.text("output_fields")
    fields = [each.strip().lower() for each in given.text(option, "value").split(",")]
    if any(each not in _FIELDS for each in fields):
        given.refuse(option, f"expected a comma-separated list of {', '.join(_FIELDS)}")
        fields = ["value"]
    given.own("output.fields", ",".join(fields), by=option)
    has_envelope = given.flag("format.output.envelope", default=True)
    if not has_envelope:
        given.own("output.envelope", "false", by="format.output.envelope")
    encoding = given.choice("format.output.fields.value.encoding", _ENCODINGS, "base64")
    if form == "csv":
        given.own("output.value.encoding", encoding, by="format.output.fields.value.encoding")
    codec = given.choice("avro.codec", _CODECS, "null")
    if form == "avro":
        given.own("output.avro.codec", codec, by="avro.codec")


def _translate_compression(given: Translation, form: str) -> None:
    """Compression, and the names with it."""
    words = {name: name for name in _SUFFIXES}
    old = given.choice("output_compression", words, "gzip")
    effective = given.choice("file.compression.type", words, old)
    is_given = given.is_given("file.compression.type")
    inside = effective if form != "parquet" or is_given else "none"
    given.own("file.compression.type", inside, by="file.compression.type" if is_given else None)
    of_format = ".avro" if form == "avro" else ""
    suffix = _SUFFIXES[effective]
    translate_names(given, of_format + (suffix if is_given else ""), of_format + suffix)


def _translate_rotation(given: Translation) -> None:
    option = "offset.flush.interval.ms"
    if given.is_given(option):
        given.own("rotate.age.ms", given.integer(option, 60_000, low=1), by=option)
    else:
        given.own("rotate.age.ms", given.worker(option, _FLUSH_MS))
    given.own("rotate.records", max_records(given), by="file.max.records")
    given.own("rotate.bytes", 0)
    given.own("open.object.max.age.ms", 0)


def _translate_uploads(given: Translation) -> None:
    size = given.integer("aws.s3.part.size.bytes", _LEAST_PART, low=1, high=2_000_000_000)
    given.own("aws.s3.part.size", min(max(size, _LEAST_PART), _MOST_PART), by="aws.s3.part.size.bytes")
    algorithm = "aws.s3.sse.algorithm"
    if given.is_given(algorithm):
        given.own(
            "aws.s3.sse",
            given.choice(algorithm, {"AES256": "AES256", "aws:kms": "aws:kms"}, "AES256"),
            by=algorithm,
        )


AIVEN: Final = Vendor(
    name="Aiven's S3 sink",
    layout=LayoutName.AIVEN,
    classes=("io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",),
    options=AIVEN_OPTIONS,
    translate=_translate,
)
