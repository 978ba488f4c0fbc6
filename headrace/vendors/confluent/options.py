"""All options of Confluent's S3 connectors, and what becomes of each, bucket and uploads included."""

from collections.abc import Mapping
from typing import Final, TypeVar

from headrace.options.value_types import listed
from headrace.options.vendor import VendorOption, changed, kept, needless, refused
from headrace.options.vendor_translation import Translation
from headrace.vendors.connect.options import CONNECT_OPTIONS

_UPLOADS: Final = "uploads hold what memory allows and spill to `buffer.dir`"
_TAGGED: Final = "tags are given with the upload, so they fail with it and never alone"
_HIVE: Final = "no Hive metastore is written; the objects are what such tables read"


_CONNECTOR: Final = (
    changed("mode", "`GENERIC`, its default, is what is written; `BACKUP_FULL_RECORD` is refused"),
    changed("format.json.schema.enable", "`false`, its default, is what is written; `true` is refused"),
    changed("format.class", "`output.format`: JsonFormat is `jsonl`, ByteArrayFormat `bytes`"),
    changed("flush.size", "`rotate.records`, of a topic-partition's open objects together"),
    changed("rotate.interval.ms", "`rotate.span.ms`, with a partitioner by time; -1 is 0, off"),
    changed(
        "rotate.schedule.interval.ms",
        "`rotate.schedule.ms`; -1 is 0, off; more than a day is a day, as there",
    ),
    changed(
        "rotate.file.on.partition.change",
        "`rotate.on.group.change`; as there, only with `rotate.interval.ms` and a partitioner by time",
    ),
    changed("filename.offset.zero.pad.width", "the padding of `{{start_offset}}` in `file.name.template`"),
    kept("schema.compatibility", "`schema.compatibility`"),
    changed("avro.codec", "`file.compression.type` of Avro: `null` is `none`, `deflate` is `gzip`"),
    changed("parquet.codec", "`file.compression.type` of Parquet; `lz4_raw` is `lz4`"),
    changed(
        "parquet.avro.write-old-list-structure",
        "`false` is what is written: lists have three levels; `true` is refused",
    ),
    kept("enhanced.avro.schema.support", "`output.avro.enhanced.schemas`"),
    kept("connect.meta.data", "`output.avro.connect.metadata`"),
    kept("allow.optional.map.keys", "`output.avro.optional.map.keys`"),
    needless("schema.cache.size", "schemas are remembered anyway"),
    needless("schemas.cache.config", "schemas are remembered anyway"),
    needless("retry.backoff.ms", "what may pass by itself is tried again without end, visibly"),
    needless("shutdown.timeout.ms", _HIVE),
    needless("enable.conditional.writes", "every object is written on the condition that its name is free"),
    needless("max.files.scan.limit", "names are not searched for: where reading continues is known"),
)
_OF_A_CLASS: Final = (
    "is read by a class of Java, which does not run here; give aws.access.key.id and "
    "aws.secret.access.key, or s3.credentials.provider.sts.role.arn"
)
_S3: Final = (
    kept("s3.bucket.name", "`aws.s3.bucket.name`"),
    changed("s3.region", "`aws.s3.region`; `us-west-2` unless it is given, as there"),
    changed("s3.part.size", "`aws.s3.part.size`, the size of a part of an upload; it closes no object"),
    changed(
        "s3.credentials.provider.class",
        "`aws.credentials.provider`; Confluent's own, which assumes a role, is `aws.sts.role.*`",
    ),
    changed("s3.credentials.provider.sts.role.arn", "`aws.sts.role.arn`"),
    changed("s3.credentials.provider.sts.role.session.name", "`aws.sts.role.session.name`"),
    changed("s3.credentials.provider.sts.role.external.id", "`aws.sts.role.external.id`"),
    changed("s3.credentials.provider.sts.aws.access.key.id", "`aws.access.key.id`, which assumes the role"),
    changed("s3.credentials.provider.sts.aws.secret.key.id", "`aws.secret.access.key` next to it"),
    changed("s3.credentials.provider.access_key_id", "`aws.access.key.id`; of Aiven's platform"),
    changed("s3.credentials.provider.secret_access_key", "`aws.secret.access.key`; of Aiven's platform"),
    changed("s3.credentials.provider.role.arn", "`aws.sts.role.arn`; of Nordstrom's provider"),
    changed("s3.credentials.provider.session.name", "`aws.sts.role.session.name`; of Nordstrom's provider"),
    changed("s3.credentials.provider.external.id", "`aws.sts.role.external.id`; of Nordstrom's provider"),
    refused("s3.credentials.provider.*", _OF_A_CLASS),
    kept("aws.access.key.id", "`aws.access.key.id`"),
    kept("aws.secret.access.key", "`aws.secret.access.key`"),
    changed("s3.ssea.name", "`aws.s3.sse`; with `s3.sse.customer.key` it is that key's algorithm"),
    kept("s3.sse.customer.key", "`aws.s3.sse.customer.key`, with `s3.ssea.name=AES256`, as there"),
    kept("s3.sse.kms.key.id", "`aws.s3.sse.kms.key.id`, with `s3.ssea.name=aws:kms`, as there"),
    kept("s3.acl.canned", "`aws.s3.acl`"),
    changed("s3.wan.mode", "`aws.s3.endpoint=https://s3-accelerate.amazonaws.com` without path style"),
    changed("s3.compression.type", "`file.compression.type` of JSON and bytes"),
    changed("s3.compression.level", "`file.compression.level`, of values; -1 leaves it out"),
    changed("json.decimal.format", "`json.decimal.format`"),
    changed("s3.part.retries", "`aws.s3.backoff.max.retries`, of every call"),
    changed("s3.retry.backoff.ms", "`aws.s3.backoff.delay.ms`, of every call"),
    kept("format.bytearray.extension", "`output.bytes.extension`"),
    changed("format.bytearray.separator", "`output.separator`"),
    kept("s3.proxy.url", "`aws.s3.proxy.url`"),
    kept("s3.proxy.user", "`aws.s3.proxy.user`"),
    kept("s3.proxy.password", "`aws.s3.proxy.password`"),
    kept("s3.path.style.access.enabled", "`aws.s3.path.style.access`; `true` unless it is given, as there"),
    changed("s3.object.tagging", "`offsets` in `aws.s3.object.tags`"),
    changed("s3.object.tagging.key.value.pairs", "pairs in `aws.s3.object.tags`"),
    needless("s3.object.behavior.on.tagging.error", _TAGGED),
    needless("s3.send.digest", "every part is sent with its CRC32"),
    needless("s3.http.send.expect.continue", "parts are sent without waiting for a 100"),
    needless("s3.elastic.buffer.enable", _UPLOADS),
    needless("s3.elastic.buffer.init.capacity", _UPLOADS),
    changed("s3.schema.partition.affix.type", "`schema_name={{schema_name}}` in `file.name.template`"),
)
_RECORDS: Final = (
    changed(
        "behavior.on.null.values",
        "`behavior.on.null.values`; `fail` unless it is given, as there; `ignore` is `report` with "
        "`errors.tolerance=all` and a dead letter topic, which gets each null there, too",
    ),
    changed("report.null.values.to.dlq", "`false`: `behavior.on.null.values=ignore` makes no dead letters"),
    changed(
        "tombstone.encoded.partition",
        "the directory in `sidecars.tombstones.template`, where tombstones are written",
    ),
    changed("store.kafka.keys", "`keys` in `sidecars`"),
    changed("store.kafka.headers", "`headers` in `sidecars`"),
    changed("keys.format.class", "`sidecars.keys.format`"),
    changed("headers.format.class", "`sidecars.headers.format`"),
)
_STORAGE: Final = (
    changed("storage.class", "S3Storage is all there is; another one is refused"),
    changed("topics.dir", "the beginning of `aws.s3.prefix`; nothing where it is blank"),
    kept("store.url", "`aws.s3.endpoint`"),
    changed("directory.delim", "between the parts of `file.name.template`"),
    changed("file.delim", "between topic, partition and offset in `file.name.template`"),
)
_PARTITIONER: Final = (
    changed("partitioner.class", "the directories in `file.name.template`"),
    changed("partition.field.name", "`NAME={{value:NAME}}` for each, in `file.name.template`"),
    changed("partition.duration.ms", "`file.name.timestamp.round.ms`, where `path.format` is finer"),
    changed("path.format", "`{{joda:..}}` in `file.name.template`"),
    kept("locale", "`file.name.locale`"),
    kept("timezone", "`file.name.timestamp.timezone`"),
    changed("timestamp.extractor", "`file.name.timestamp.source`: Wallclock, Record, RecordField"),
    changed("timestamp.field", "`file.name.timestamp.source=value:FIELD`"),
    needless(
        "partitioner.max.open.files", "open objects spill to `buffer.dir`, so their number costs no memory"
    ),
)
_OTHERS: Final = (
    needless("schema.generator.class", _HIVE),
    needless("hive.*", _HIVE),
    needless("confluent.license", "no vendor's license is needed"),
    needless("confluent.topic.*", "no vendor's license is needed"),
    needless("confluent.metrics.*", "metrics are those of `http.listen`"),
)

CONFLUENT_OPTIONS: Final[tuple[VendorOption, ...]] = (
    *_CONNECTOR,
    *_S3,
    *_RECORDS,
    *_STORAGE,
    *_PARTITIONER,
    *_OTHERS,
    *CONNECT_OPTIONS,
)
PROVIDER_OPTIONS: Final = tuple(
    row.name for row in CONFLUENT_OPTIONS if row.name.startswith("s3.credentials.provider.")
)
"""The names of those by which credentials are found, of both connectors."""
SOURCE_CREDENTIALS: Final[tuple[VendorOption, ...]] = (
    changed("s3.credentials.provider.aws.access.key.id", "`aws.access.key.id`, which assumes the role"),
    changed("s3.credentials.provider.aws.secret.access.key", "`aws.secret.access.key` next to it"),
)
"""Those that the source alone has."""


# -- Classes that Confluent's configurations name, by their full or simple names -----------------------------

T = TypeVar("T")


def class_of(
    given: Translation, option: str, known: Mapping[str, T], default: T, *, otherwise: str = ""
) -> T:
    """What one of these classes stands for; a problem that lists them for another one.

    `otherwise` says what else can be written.
    """
    text = given.text(option)
    if not text:
        return default
    if text not in known:
        given.refuse(
            option, f"is a class that is not known here; the known ones are {', '.join(known)}{otherwise}"
        )
        return default
    return known[text]


FORMATS: Final = {
    "io.confluent.connect.s3.format.avro.AvroFormat": "avro",
    "io.confluent.connect.s3.format.json.JsonFormat": "jsonl",
    "io.confluent.connect.s3.format.parquet.ParquetFormat": "parquet",
    "io.confluent.connect.s3.format.bytearray.ByteArrayFormat": "bytes",
}
"""The formats of objects, as `output.format` spells them."""

HEADER_FORMATS: Final = {name: spelled for name, spelled in FORMATS.items() if spelled != "bytes"}
"""Those that headers can have."""

STORAGES: Final = {"io.confluent.connect.s3.storage.S3Storage": "s3"}

# The formats of objects of which these say something: by the other connector's options, and by whichever.
_CODECS: Final = {
    "avro.codec": ("avro",),
    "parquet.codec": ("parquet",),
    "s3.compression.type": ("jsonl", "bytes"),
}
_OF_FORMATS: Final = {
    "json.decimal.format": ("jsonl",),
    "format.bytearray.extension": ("bytes",),
    "format.bytearray.separator": ("bytes",),
    "enhanced.avro.schema.support": ("avro", "parquet"),
    "connect.meta.data": ("avro", "parquet"),
    "allow.optional.map.keys": ("avro", "parquet"),
}
_BY_CLASSES: Final = "format.class, keys.format.class or headers.format.class of"
_SIDES: Final = frozenset({"keys", "headers"})
_OUR_SIDES: Final = "avro"


def note_unused_formats(given: Translation, values: str, sides: Mapping[str, str]) -> None:
    """Say which options are given of formats in which no object is written.

    `values` is the format of these in the other connector, and `sides` has those of keys and headers that
    it writes. Options of ours win over them; the compression is still the one that theirs say.
    """
    theirs = {values, *sides.values()}
    for option, forms in _CODECS.items():
        if theirs.isdisjoint(forms):
            given.unused(option, without=f"{_BY_CLASSES} {' or '.join(forms)}")
    written = {given.own_given("output.format").lower() or values}
    own = {side.strip().lower() for side in given.own_given("sidecars").split(",")}
    for side in _SIDES & (own if own != {""} else sides.keys()):
        form = given.own_given(f"sidecars.{side}.format").lower()
        written.add(form or sides.get(side, _OUR_SIDES))
    for option, forms in _OF_FORMATS.items():
        if written.isdisjoint(forms):
            given.unused(option, without=f"objects of {' or '.join(forms)}")


# -- Confluent's bucket, credentials, encryption and uploads -------------------------------------------------

_PROVIDER: Final = "s3.credentials.provider.class"
_ROLE_PROVIDER: Final = "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider"
_ROLE: Final = {
    "s3.credentials.provider.sts.role.arn": "aws.sts.role.arn",
    "s3.credentials.provider.sts.role.session.name": "aws.sts.role.session.name",
    "s3.credentials.provider.sts.role.external.id": "aws.sts.role.external.id",
}
_ROLE_KEYS: Final = {
    "s3.credentials.provider.sts.aws.access.key.id": "aws.access.key.id",
    "s3.credentials.provider.sts.aws.secret.key.id": "aws.secret.access.key",
}
_KEYS: Final = ("aws.access.key.id", "aws.secret.access.key")
# Of a class that several plugins bring: it assumes a role, with the default credentials.
_OTHER_ROLE_PROVIDER: Final = "com.nordstrom.kafka.connect.auth.AWSAssumeRoleCredentialsProvider"
_OTHER_ROLE: Final = {
    "s3.credentials.provider.role.arn": "aws.sts.role.arn",
    "s3.credentials.provider.session.name": "aws.sts.role.session.name",
    "s3.credentials.provider.external.id": "aws.sts.role.external.id",
}
# As the source has them since 2.5.1.
_SOURCE_ROLE_KEYS: Final = {
    "s3.credentials.provider.aws.access.key.id": "aws.access.key.id",
    "s3.credentials.provider.aws.secret.access.key": "aws.secret.access.key",
}
# Of the class that Aiven's platform brings.
_PLATFORM_PROVIDER: Final = "io.aiven.kafka.connect.util.AivenAWSCredentialsProvider"
_PLATFORM_KEYS: Final = {
    "s3.credentials.provider.access_key_id": "aws.access.key.id",
    "s3.credentials.provider.secret_access_key": "aws.secret.access.key",
}
_ACCELERATED: Final = "https://s3-accelerate.amazonaws.com"
_PART_BYTES: Final = 25 * 1024 * 1024
_LEAST_PART: Final = 5 * 1024 * 1024
_BUFFER_BYTES: Final = 128 * 1024 * 1024
_MOST_DELAY_MS: Final = 3_600_000
# As many as doubling pauses can have; behind them an upload is tried again anyway.
_MOST_RETRIES: Final = 30


def translate_storage(given: Translation) -> None:
    """Write where objects go, and how."""
    if not given.is_given("storage.class"):
        given.refuse("storage.class", f"is missing; add storage.class={next(iter(STORAGES))}")
    class_of(given, "storage.class", STORAGES, "s3")
    given.rename("s3.bucket.name", "aws.s3.bucket.name")
    given.own("aws.s3.region", given.text("s3.region", "us-west-2"), by="s3.region")
    translate_endpoint(given)
    translate_credentials(given)
    _translate_encryption(given)
    _translate_uploads(given)
    translate_proxy(given)


def translate_proxy(given: Translation) -> None:
    """Write the proxy."""
    for name in ("url", "user", "password"):
        given.rename(f"s3.proxy.{name}", f"aws.s3.proxy.{name}")


def translate_endpoint(given: Translation) -> None:
    """Write the address of S3, and where the bucket is in addresses."""
    path_style = given.flag("s3.path.style.access.enabled", default=True)
    if given.flag("s3.wan.mode", default=False):
        if given.is_given("store.url"):
            given.refuse("s3.wan.mode", "and store.url exclude each other; keep one of them")
        given.own("aws.s3.endpoint", _ACCELERATED, by="s3.wan.mode")
        path_style = False
    given.rename("store.url", "aws.s3.endpoint")
    given.own("aws.s3.path.style.access", "true" if path_style else "false")


def translate_credentials(given: Translation, *, is_source: bool = False) -> None:
    """Write keys, provider and role."""
    role_keys = {**_ROLE_KEYS, **(_SOURCE_ROLE_KEYS if is_source else {})}
    for theirs, own in _PLATFORM_KEYS.items():
        given.rename(theirs, own)
    if given.text(_PROVIDER) == _OTHER_ROLE_PROVIDER:
        given.unused(*_KEYS, without=f"another {_PROVIDER}")
    else:
        for option in _KEYS:
            given.rename(option, option)
    needed = f"means nothing without {_PROVIDER}={_ROLE_PROVIDER}"
    _translate_role(given, {**_ROLE, **role_keys}, _ROLE_PROVIDER, needed)
    _translate_role(given, _OTHER_ROLE, _OTHER_ROLE_PROVIDER, _OF_A_CLASS)
    if given.text(_PROVIDER) not in {_ROLE_PROVIDER, _OTHER_ROLE_PROVIDER, _PLATFORM_PROVIDER}:
        given.rename(_PROVIDER, "aws.credentials.provider")


def _translate_role(given: Translation, options: Mapping[str, str], provider: str, otherwise: str) -> None:
    """Write the role that a provider assumes, of which the first option is the name; its options need it."""
    if given.text(_PROVIDER) != provider:
        for option in filter(given.is_given, options):
            given.refuse(option, otherwise)
        return
    name = next(iter(options))
    if not given.is_given(name):
        given.refuse(name, f"is missing; {provider} assumes this role")
    for theirs, own in options.items():
        given.rename(theirs, own)


def _translate_encryption(given: Translation) -> None:
    """Write ACL and encryption: a customer's key counts with AES256 alone, a key of KMS with aws:kms."""
    given.rename("s3.acl.canned", "aws.s3.acl")
    algorithm = given.text("s3.ssea.name").lower()
    if algorithm == "aes256" and given.is_given("s3.sse.customer.key"):
        given.rename("s3.sse.customer.key", "aws.s3.sse.customer.key")
    else:
        given.rename("s3.ssea.name", "aws.s3.sse")
        given.unused("s3.sse.customer.key", without="s3.ssea.name=AES256")
    if algorithm.startswith("aws:kms"):
        given.rename("s3.sse.kms.key.id", "aws.s3.sse.kms.key.id")
    elif given.is_given("s3.sse.kms.key.id"):
        given.unused("s3.sse.kms.key.id", without="s3.ssea.name=aws:kms")
        given.warn(
            "s3.sse.kms.key.id encrypts no object without s3.ssea.name=aws:kms, as in the other sink; add "
            "that, or remove it"
        )


def _translate_uploads(given: Translation) -> None:
    option = "s3.part.size"
    part = given.integer(option, _PART_BYTES, low=_LEAST_PART, high=2**31 - 1)
    given.own("aws.s3.part.size", part, by=option)
    if part > _BUFFER_BYTES:
        given.own("buffer.max.bytes", part, by=option)
    if given.is_given(option):
        given.warn(
            "s3.part.size is the size of a part of an upload and closes no object, as in the other sink; "
            "rotate.bytes does"
        )
    translate_calls(given)
    given.own("aws.s3.object.tags", ",".join(_tags(given)), by="s3.object.tagging")


def translate_calls(given: Translation) -> None:
    """Write how often a call is repeated."""
    retries = min(given.integer("s3.part.retries", 3, low=0), _MOST_RETRIES)
    given.own("aws.s3.backoff.max.retries", retries, by="s3.part.retries")
    delay = min(max(given.integer("s3.retry.backoff.ms", 200, low=0), 1), _MOST_DELAY_MS)
    given.own("aws.s3.backoff.delay.ms", delay, by="s3.retry.backoff.ms")


def _tags(given: Translation) -> list[str]:
    """Tags as `aws.s3.object.tags` has them. Pairs are of no object there unless offsets are."""
    pairs = "s3.object.tagging.key.value.pairs"
    texts = listed(given.text(pairs))
    if any(":" not in text for text in texts):
        given.refuse(pairs, "expected a comma-separated list of name:value")
    if any("=" in text.partition(":")[0] for text in texts):
        given.refuse(pairs, "has a name with an equals sign, after which values begin here; set another name")
    if not given.flag("s3.object.tagging", default=False):
        given.unused(pairs, without="s3.object.tagging=true")
        return []
    return ["offsets", *("=".join(text.split(":", 1)) for text in texts)]
