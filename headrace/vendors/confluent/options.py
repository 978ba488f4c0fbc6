"""All options of Confluent's S3 sink, and what becomes of each."""

from typing import Final

from headrace.options.vendor import Fate, VendorOption
from headrace.vendors.connect.options import CONNECT_OPTIONS

_UPLOADS: Final = "uploads hold what memory allows and spill to `buffer.dir`"
_TAGGED: Final = "tags are given with the upload, so they fail with it and never alone"
_HIVE: Final = "no Hive metastore is written; the objects are what such tables read"


def _kept(name: str, note: str) -> VendorOption:
    return VendorOption(name=name, fate=Fate.KEPT, note=note)


def _changed(name: str, note: str) -> VendorOption:
    return VendorOption(name=name, fate=Fate.CHANGED, note=note)


def _needless(name: str, note: str) -> VendorOption:
    return VendorOption(name=name, fate=Fate.NEEDLESS, note=note)


_CONNECTOR: Final = (
    _changed("format.class", "`output.format`: JsonFormat is `jsonl`, ByteArrayFormat `bytes`"),
    _changed("flush.size", "`rotate.records`, of a topic-partition's open objects together"),
    _changed("rotate.interval.ms", "`rotate.span.ms`, with a partitioner by time; -1 is 0, off"),
    _changed("rotate.schedule.interval.ms", "`rotate.schedule.ms`; -1 is 0, off"),
    _changed(
        "rotate.file.on.partition.change",
        "`rotate.on.group.change`; as there, only with `rotate.interval.ms` and a partitioner by time",
    ),
    _changed("filename.offset.zero.pad.width", "the padding of `{{start_offset}}` in `file.name.template`"),
    _kept("schema.compatibility", "`schema.compatibility`"),
    _changed("avro.codec", "`file.compression.type` of Avro: `null` is `none`, `deflate` is `gzip`"),
    _changed("parquet.codec", "`file.compression.type` of Parquet; `lz4_raw` is `lz4`"),
    _kept("enhanced.avro.schema.support", "`output.avro.enhanced.schemas`"),
    _kept("connect.meta.data", "`output.avro.connect.metadata`"),
    _kept("allow.optional.map.keys", "`output.avro.optional.map.keys`"),
    _needless("schema.cache.size", "schemas are remembered anyway"),
    _needless("schemas.cache.config", "schemas are remembered anyway"),
    _needless("retry.backoff.ms", "what may pass by itself is tried again without end, visibly"),
    _needless("shutdown.timeout.ms", _HIVE),
    _needless("enable.conditional.writes", "every object is written on the condition that its name is free"),
    _needless("max.files.scan.limit", "names are not searched for: where reading continues is known"),
)
_S3: Final = (
    _kept("s3.bucket.name", "`aws.s3.bucket.name`"),
    _changed("s3.region", "`aws.s3.region`; `us-west-2` unless it is given, as there"),
    _changed("s3.part.size", "`aws.s3.part.size`, the size of a part of an upload; it closes no object"),
    _changed(
        "s3.credentials.provider.class",
        "`aws.credentials.provider`; Confluent's own, which assumes a role, is `aws.sts.role.*`",
    ),
    _changed("s3.credentials.provider.sts.role.arn", "`aws.sts.role.arn`"),
    _changed("s3.credentials.provider.sts.role.session.name", "`aws.sts.role.session.name`"),
    _changed("s3.credentials.provider.sts.role.external.id", "`aws.sts.role.external.id`"),
    _changed("s3.credentials.provider.sts.aws.access.key.id", "`aws.access.key.id`, which assumes the role"),
    _changed("s3.credentials.provider.sts.aws.secret.key.id", "`aws.secret.access.key` next to it"),
    _changed("s3.credentials.provider.access_key_id", "`aws.access.key.id`; of Aiven's platform"),
    _changed("s3.credentials.provider.secret_access_key", "`aws.secret.access.key`; of Aiven's platform"),
    VendorOption(
        name="s3.credentials.provider.*",
        fate=Fate.REFUSED,
        note="is read by a class of Java, which does not run here; give aws.access.key.id and "
        "aws.secret.access.key, or s3.credentials.provider.sts.role.arn",
    ),
    _kept("aws.access.key.id", "`aws.access.key.id`"),
    _kept("aws.secret.access.key", "`aws.secret.access.key`"),
    _changed("s3.ssea.name", "`aws.s3.sse`; with `s3.sse.customer.key` it is that key's algorithm"),
    _kept("s3.sse.customer.key", "`aws.s3.sse.customer.key`"),
    _kept("s3.sse.kms.key.id", "`aws.s3.sse.kms.key.id`"),
    _kept("s3.acl.canned", "`aws.s3.acl`"),
    _changed("s3.wan.mode", "`aws.s3.endpoint=https://s3-accelerate.amazonaws.com` without path style"),
    _changed("s3.compression.type", "`file.compression.type` of JSON and bytes"),
    _changed("s3.compression.level", "`file.compression.level`; -1 leaves it out"),
    _changed("json.decimal.format", "`json.decimal.format`"),
    _changed("s3.part.retries", "`aws.s3.backoff.max.retries`, of every call"),
    _changed("s3.retry.backoff.ms", "`aws.s3.backoff.delay.ms`, of every call"),
    _kept("format.bytearray.extension", "`output.bytes.extension`"),
    _changed("format.bytearray.separator", "`output.separator`"),
    _kept("s3.proxy.url", "`aws.s3.proxy.url`"),
    _kept("s3.proxy.user", "`aws.s3.proxy.user`"),
    _kept("s3.proxy.password", "`aws.s3.proxy.password`"),
    _kept("s3.path.style.access.enabled", "`aws.s3.path.style.access`; `true` unless it is given, as there"),
    _changed("s3.object.tagging", "`offsets` in `aws.s3.object.tags`"),
    _changed("s3.object.tagging.key.value.pairs", "pairs in `aws.s3.object.tags`"),
    _needless("s3.object.behavior.on.tagging.error", _TAGGED),
    _needless("s3.send.digest", "every part is sent with its CRC32"),
    _needless("s3.http.send.expect.continue", "parts are sent without waiting for a 100"),
    _needless("s3.elastic.buffer.enable", _UPLOADS),
    _needless("s3.elastic.buffer.init.capacity", _UPLOADS),
    _changed("s3.schema.partition.affix.type", "`schema_name={{schema_name}}` in `file.name.template`"),
)
_RECORDS: Final = (
    _changed("behavior.on.null.values", "`behavior.on.null.values`; `fail` unless it is given, as there"),
    _changed("tombstone.encoded.partition", "`sidecars.tombstones.directory`, where tombstones are written"),
    _changed("store.kafka.keys", "`keys` in `sidecars`"),
    _changed("store.kafka.headers", "`headers` in `sidecars`"),
    _changed("keys.format.class", "`sidecars.keys.format`"),
    _changed("headers.format.class", "`sidecars.headers.format`"),
)
_STORAGE: Final = (
    _changed("storage.class", "S3Storage is all there is; another one is refused"),
    _changed("topics.dir", "the beginning of `aws.s3.prefix`; nothing where it is blank"),
    _kept("store.url", "`aws.s3.endpoint`"),
    _changed("directory.delim", "between the parts of `file.name.template`"),
    _changed("file.delim", "between topic, partition and offset in `file.name.template`"),
)
_PARTITIONER: Final = (
    _changed("partitioner.class", "the directories in `file.name.template`"),
    _changed("partition.field.name", "`NAME={{value:NAME}}` for each, in `file.name.template`"),
    _changed("partition.duration.ms", "`file.name.timestamp.round.ms`, where `path.format` is finer"),
    _changed("path.format", "`{{joda:..}}` in `file.name.template`"),
    _kept("locale", "`file.name.locale`"),
    _kept("timezone", "`file.name.timestamp.timezone`"),
    _changed("timestamp.extractor", "`file.name.timestamp.source`: Wallclock, Record, RecordField"),
    _changed("timestamp.field", "`file.name.timestamp.source=value:FIELD`"),
    _needless(
        "partitioner.max.open.files", "open objects spill to `buffer.dir`, so their number costs no memory"
    ),
)
_OTHERS: Final = (
    _needless("schema.generator.class", _HIVE),
    _needless("hive.*", _HIVE),
    _needless("confluent.license", "no vendor's license is needed"),
    _needless("confluent.topic.*", "no vendor's license is needed"),
    _needless("confluent.metrics.*", "metrics are those of `http.listen`"),
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
