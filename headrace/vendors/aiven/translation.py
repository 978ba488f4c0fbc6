"""Aiven's S3 sink for Apache Kafka: its configuration in our options.

Its defaults hold: objects close by the worker's flush interval, hold values alone as csv in base64, and are
gzipped, while their names say so only where the compression is given.
"""

from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.vendor import Vendor, VendorOption, changed, kept, needless, refused
from headrace.options.vendor_translation import Translation
from headrace.vendors.aiven.names import max_records, translate_names
from headrace.vendors.connect.options import CONNECT_OPTIONS, translate_connect

# -- The options of Aiven's S3 sink, and what becomes of each ------------------------------------------------

SAME: Final = (
    "aws.access.key.id",
    "aws.secret.access.key",
    "aws.credentials.provider",
    "aws.s3.bucket.name",
    "aws.s3.endpoint",
    "aws.s3.region",
    "aws.sts.role.arn",
    "aws.sts.role.external.id",
    "aws.sts.role.session.name",
    "aws.sts.role.session.duration",
    "aws.sts.config.endpoint",
    "aws.s3.backoff.delay.ms",
    "aws.s3.backoff.max.delay.ms",
    "aws.s3.backoff.max.retries",
)
"""Of one name and meaning here."""
OLD_SPELLINGS: Final = {
    "aws_access_key_id": "aws.access.key.id",
    "aws_secret_access_key": "aws.secret.access.key",
    "aws_s3_bucket": "aws.s3.bucket.name",
    "aws_s3_endpoint": "aws.s3.endpoint",
    "aws_s3_region": "aws.s3.region",
}
AVRO_DATA: Final = {
    "connect.meta.data": "true",
    "enhanced.avro.schema.support": "false",
    "scrub.invalid.names": "false",
    "allow.optional.map.keys": "false",
    "flatten.unions": "false",
    "generalized.sum.type.support": "false",
    "ignore.default.for.nullables": "false",
    "discard.type.doc.default": "false",
}
"""The options of Confluent's library for schemas, with the values that it has here."""


_OF_SOURCES: Final = "of Aiven's source, its sink never reads it"

AIVEN_OPTIONS: Final[tuple[VendorOption, ...]] = (
    *(kept(name, f"`{name}`") for name in SAME),
    *(kept(old, f"`{new}`, which wins where both are given") for old, new in OLD_SPELLINGS.items()),
    changed(
        "aws.s3.sse.algorithm",
        "`aws.s3.sse`: S3 encrypts with its own keys (AES256) or those of KMS (aws:kms), which Aiven's sink "
        "asks for in the header of customers' keys",
    ),
    changed(
        "aws.s3.part.size.bytes",
        "`aws.s3.part.size`, 5 MiB where it is not given; at least that, which is S3's least, and at most "
        "`buffer.max.bytes`",
    ),
    changed(
        "aws.s3.prefix",
        "`aws.s3.prefix`, or with variables the beginning of `file.name.template`; objects are named "
        "topic-partition-offset behind it, the offset with 20 digits; as there, `padding` of a partition "
        "decides nothing",
    ),
    changed("aws_s3_prefix", "as `aws.s3.prefix`, which wins where both are given"),
    changed(
        "file.name.template",
        "`file.name.template`, in which `{{timestamp:unit=..}}` with record times makes `{{start_offset}}` "
        "`{{batch_offset}}`, or with `file.max.records` objects close where the time in their name "
        "changes; refused with `aws.s3.prefix` where it would group by key or time",
    ),
    changed(
        "file.compression.type",
        "`file.compression.type`, gzip where it is not given (none inside Parquet); only where it is given "
        "do default names show it",
    ),
    changed("output_compression", "as `file.compression.type`, which wins; it is never inside Parquet"),
    changed("file.max.records", "`rotate.records`; with names of keys alone 0 or 1, as there"),
    changed("offset.flush.interval.ms", "`rotate.age.ms`; 60000 where neither file says anything"),
    kept("file.name.timestamp.timezone", "`file.name.timestamp.timezone`, for `file.name.template`"),
    changed(
        "file.name.timestamp.source",
        "`file.name.timestamp.source`, WALLCLOCK where it is not given, for `file.name.template`; "
        "SIMPLE_DATA is `value:PATH`, HEADER and CUSTOM are refused",
    ),
    changed("timestamp.timezone", "`file.name.timestamp.timezone`, for `aws.s3.prefix`"),
    changed(
        "timestamp.source",
        "`file.name.timestamp.source`, for `aws.s3.prefix`: `wallclock`, or with EVENT `first`, the time of "
        "an object's first record; SIMPLE_DATA is refused",
    ),
    kept("format.output.type", "`output.format`, csv where it is not given"),
    kept("format.output.fields", "`output.fields`, value where it is not given"),
    kept("output_fields", "as `format.output.fields`, which wins where both are given"),
    changed(
        "format.output.fields.value.encoding",
        "`output.value.encoding`, with csv; other formats never had a use for it",
    ),
    kept("format.output.envelope", "`output.envelope`"),
    changed("avro.codec", "`output.avro.codec`, inside Avro; `file.compression.type` is around the file"),
    refused(
        "file.record.grouper.builder",
        "names a class that groups records, and classes of others do not run here; group by variables "
        "of file.name.template",
    ),
    *(
        changed(name, f"always {value}, its default; another value is refused")
        for name, value in AVRO_DATA.items()
    ),
    needless("schemas.cache.config", "schemas are remembered anyway"),
    needless("schemas.cache.size", "schemas are remembered anyway"),
    needless("connect.parquet.*", "row groups and pages have the sizes that Parquet's readers like"),
    needless("kafka.retry.backoff.ms", "what may pass by itself is tried again without end, visibly"),
    needless("aws.s3.fetch.page.size", _OF_SOURCES),
    needless("aws.s3.fetch.buffer.size", _OF_SOURCES),
    *CONNECT_OPTIONS,
)


# -- Aiven's S3 sink for Apache Kafka: its configuration in our options --------------------------------------

_OLDER: Final = {
    **OLD_SPELLINGS,
    "aws_s3_prefix": "aws.s3.prefix",
    "output_compression": "file.compression.type",
    "output_fields": "format.output.fields",
}
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
    for old, new in _OLDER.items():
        given.older(old, new)
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
        given.unused("format.output.envelope", without="rows of JSON, Avro or Parquet")
    else:
        given.unused("format.output.fields.value.encoding", without="format.output.type=csv")
    codec = given.choice("avro.codec", _CODECS, "null")
    if form == "avro":
        given.own("output.avro.codec", codec, by="avro.codec")
    else:
        given.unused("avro.codec", without="format.output.type=avro")


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
    of_worker = given.worker(option)
    if given.is_given(option):
        given.own("rotate.age.ms", given.integer(option, 60_000, low=1), by=option)
    else:
        given.own("rotate.age.ms", of_worker or _FLUSH_MS, by=option if of_worker else None)
    given.own("rotate.records", max_records(given), by="file.max.records")
    given.own("rotate.bytes", 0)
    # Without another limit the sentence that nothing closes is of the option that says so.
    is_by_worker = not given.is_given(option) and of_worker.strip() == "0"
    given.own("open.object.max.age.ms", 0, by=option if is_by_worker else None)


def _translate_uploads(given: Translation) -> None:
    size = given.integer("aws.s3.part.size.bytes", _LEAST_PART, low=1, high=2_000_000_000)
    given.own("aws.s3.part.size", min(max(size, _LEAST_PART), _MOST_PART), by="aws.s3.part.size.bytes")
    algorithm = "aws.s3.sse.algorithm"
    if given.is_given(algorithm):
        given.own(
            "aws.s3.sse",
            given.choice(algorithm, {word: word for word in ("AES256", "aws:kms", "aws:kms:dsse")}, "AES256"),
            by=algorithm,
        )


AIVEN: Final = Vendor(
    name="Aiven's S3 sink",
    layout=LayoutName.AIVEN,
    classes=("io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",),
    options=AIVEN_OPTIONS,
    translate=_translate,
)
