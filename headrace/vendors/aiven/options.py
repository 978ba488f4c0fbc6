"""The options of Aiven's S3 sink, and what becomes of each."""

from typing import Final

from headrace.options.vendor import Fate, VendorOption
from headrace.vendors.connect.options import CONNECT_OPTIONS

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
"""What Confluent's library for schemas is told, with the values that it is told here."""


def _kept(name: str, note: str) -> VendorOption:
    return VendorOption(name=name, fate=Fate.KEPT, note=note)


def _changed(name: str, note: str) -> VendorOption:
    return VendorOption(name=name, fate=Fate.CHANGED, note=note)


def _needless(name: str, note: str) -> VendorOption:
    return VendorOption(name=name, fate=Fate.NEEDLESS, note=note)


_OF_SOURCES: Final = "of Aiven's source, its sink never reads it"

AIVEN_OPTIONS: Final[tuple[VendorOption, ...]] = (
    *(_kept(name, f"`{name}`") for name in SAME),
    *(_kept(old, f"`{new}`, which wins where both are given") for old, new in OLD_SPELLINGS.items()),
    _changed(
        "aws.s3.sse.algorithm",
        "`aws.s3.sse`: S3 encrypts with its own keys (AES256) or those of KMS (aws:kms), which Aiven's sink "
        "asks for in the header of customers' keys",
    ),
    _changed(
        "aws.s3.part.size.bytes",
        "`aws.s3.part.size`, 5 MiB where it is not given; at least that, which is S3's least, and at most "
        "`buffer.max.bytes`",
    ),
    _changed(
        "aws.s3.prefix",
        "`aws.s3.prefix`, or with variables the beginning of `file.name.template`; objects are named "
        "topic-partition-offset behind it, the offset with 20 digits",
    ),
    _changed("aws_s3_prefix", "as `aws.s3.prefix`, which wins where both are given"),
    _changed(
        "file.name.template",
        "`file.name.template`, in which `{{timestamp:unit=..}}` with record times makes `{{start_offset}}` "
        "`{{batch_offset}}`, or with `file.max.records` objects close where the time in their name "
        "changes; refused beside `aws.s3.prefix` where it would group by key or time",
    ),
    _changed(
        "file.compression.type",
        "`file.compression.type`, gzip where it is not given (none inside Parquet); only where it is given "
        "do default names show it",
    ),
    _changed("output_compression", "as `file.compression.type`, which wins; it is never inside Parquet"),
    _changed("file.max.records", "`rotate.records`; with names of keys alone 0 or 1, as there"),
    _changed("offset.flush.interval.ms", "`rotate.age.ms`; 60000 where neither file says anything"),
    _kept("file.name.timestamp.timezone", "`file.name.timestamp.timezone`, for `file.name.template`"),
    _changed(
        "file.name.timestamp.source",
        "`file.name.timestamp.source`, WALLCLOCK where it is not given, for `file.name.template`; "
        "SIMPLE_DATA is `value:PATH`, HEADER and CUSTOM are refused",
    ),
    _changed("timestamp.timezone", "`file.name.timestamp.timezone`, for `aws.s3.prefix`"),
    _changed(
        "timestamp.source",
        "`file.name.timestamp.source`, for `aws.s3.prefix`: `wallclock`, or with EVENT `first`, the time of "
        "an object's first record",
    ),
    _kept("format.output.type", "`output.format`, csv where it is not given"),
    _kept("format.output.fields", "`output.fields`, value where it is not given"),
    _kept("output_fields", "as `format.output.fields`, which wins where both are given"),
    _changed(
        "format.output.fields.value.encoding",
        "`output.value.encoding`, with csv; other formats never had a use for it",
    ),
    _kept("format.output.envelope", "`output.envelope`"),
    _changed("avro.codec", "`output.avro.codec`, inside Avro; `file.compression.type` is around the file"),
    VendorOption(
        name="file.record.grouper.builder",
        fate=Fate.REFUSED,
        note="names a class that groups records, and classes of others do not run here; group by variables "
        "of file.name.template",
    ),
    *(
        _changed(name, f"always {value}, its default; another value is refused")
        for name, value in AVRO_DATA.items()
    ),
    _needless("schemas.cache.config", "schemas are remembered anyway"),
    _needless("schemas.cache.size", "schemas are remembered anyway"),
    _needless("connect.parquet.*", "row groups and pages have the sizes that Parquet's readers like"),
    _needless("kafka.retry.backoff.ms", "what may pass by itself is tried again without end, visibly"),
    _needless("aws.s3.fetch.page.size", _OF_SOURCES),
    _needless("aws.s3.fetch.buffer.size", _OF_SOURCES),
    *CONNECT_OPTIONS,
)
