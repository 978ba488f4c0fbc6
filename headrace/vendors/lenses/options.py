"""What becomes of each option of Lenses' S3 sink and source, and of each property of their statements."""

from typing import Final

from headrace.options.vendor import VendorOption, changed, kept, needless, refused
from headrace.vendors.connect.options import CONNECT_OPTIONS, SOURCE_CONNECT_OPTIONS

_ENDLESS: Final = "what may pass by itself is tried again without end, visibly"
_NO_INDEXES: Final = "no index objects are written: what is archived is recorded in the ledger topic"


OPTIONS: Final[tuple[VendorOption, ...]] = (
    kept(
        "connect.s3.kcql",
        "one statement, or that of `*`, is the sink's own `aws.s3.bucket.name`, `aws.s3.prefix`, "
        "`file.name.template`, `output.*` and `rotate.*`; each other one is a `route.NAME.*`",
    ),
    kept("topics", "`topics`; each needs a statement, its own or that of `*`"),
    changed(
        "topics.regex",
        "`topics.regex` with a statement of `*`; without it `topics`, those of the statements that match",
    ),
    kept("connect.s3.aws.region", "`aws.s3.region`"),
    kept("connect.s3.aws.access.key", "`aws.access.key.id`, with `connect.s3.aws.auth.mode=Credentials`"),
    kept("connect.s3.aws.secret.key", "`aws.secret.access.key`, with `connect.s3.aws.auth.mode=Credentials`"),
    kept(
        "connect.s3.aws.auth.mode",
        "`Credentials` needs both keys; `Default`, which it is without, ignores them with a warning",
    ),
    kept("connect.s3.custom.endpoint", "`aws.s3.endpoint`"),
    kept("connect.s3.path.style.access", "`aws.s3.path.style.access`; without either, as that option"),
    kept(
        "connect.s3.vhost.bucket",
        "`aws.s3.path.style.access`: `true` is path style, as Lenses' sink has it in spite of the name",
    ),
    kept("connect.s3.http.max.retries", "`aws.s3.backoff.max.retries`, of each call; 5 where it is absent"),
    kept("connect.s3.http.retry.interval", "`aws.s3.backoff.delay.ms`, of each call; 50 where it is absent"),
    needless("connect.s3.http.socket.timeout", "a call that hangs is ended after 60 s and repeated"),
    needless("connect.s3.http.connection.timeout", "a connection that is not made is tried again"),
    kept("connect.s3.pool.max.connections", "`aws.s3.max.connections`; -1 is 8"),
    changed(
        "connect.s3.error.policy",
        "`THROW` and `RETRY`: S3's outages are retried without end, visibly, and bad records go by "
        "`errors.tolerance`; `NOOP`, which loses records, is refused",
    ),
    needless("connect.s3.max.retries", _ENDLESS),
    needless("connect.s3.retry.interval", _ENDLESS),
    kept(
        "connect.s3.compression.codec",
        "`file.compression.type`; codecs that the format of a statement does not have are refused (the "
        "sentence lists those that it has), and `LZ0`, which is LZO",
    ),
    kept("connect.s3.compression.level", "`file.compression.level`, for codecs that have one"),
    kept("connect.s3.local.tmp.directory", "`buffer.dir`: only what memory does not hold is written there"),
    kept("connect.s3.padding.strategy", "`{{end_offset:padding=..}}` in `file.name.template`"),
    kept("connect.s3.padding.length", "`{{end_offset:padding=..}}` in `file.name.template`"),
    needless("connect.s3.seek.max.files", _NO_INDEXES),
    kept("connect.s3.indexes.name", "`takeover.indexes`: locks are read, to continue where Lenses stopped"),
    needless("connect.s3.indexes.*", _NO_INDEXES),
    changed(
        "connect.s3.exactly.once.enable",
        "it is exactly once either way, and costs no request more; with `false` Lenses has kept no locks "
        "(`takeover.indexes=none`)",
    ),
    changed(
        "connect.s3.schema.change.detector",
        "`schema.compatibility`: `default` is `none`, `version` is `backward`, `compatibility` is `forward`",
    ),
    changed(
        "connect.s3.schema.change.rollover",
        "`true`, as it is without; `false` is refused, since a record of another schema could not be written",
    ),
    changed(
        "connect.s3.latest.schema.optimization.enabled",
        "`schema.compatibility=backward`: records of older schemas are written by the newest, without a new "
        "object",
    ),
    kept("connect.s3.skip.null.values", "`behavior.on.null.values`: `true` is `ignore`"),
    changed("aws.region", "`connect.s3.aws.region`, by its name of older versions"),
    changed("aws.custom.endpoint", "`connect.s3.custom.endpoint`, by its name of older versions"),
    changed("aws.vhost.bucket", "`connect.s3.vhost.bucket`, by its name of older versions"),
    changed("aws.auth.mode", "`connect.s3.aws.auth.mode`, by its name of older versions"),
    changed("aws.access.key", "`connect.s3.aws.access.key`, by its name of older versions"),
    changed("aws.secret.key", "`connect.s3.aws.secret.key`, by its name of older versions"),
    needless("connect.s3.aws.client", "there is one client of S3 here"),
    refused(
        "connect.s3.config.profiles",
        "names YAML files that Lenses' sink reads; write their lines, and the statement, into this file",
    ),
    refused(
        "connect.s3.disable.flush.count",
        "is of older versions; write PROPERTIES('flush.count'=..) with as many records as there may be",
    ),
    needless("connect.s3.log.metrics", "numbers are at `/metrics`"),
    needless("connect.progress.enabled", "progress is in the log and at `/status`"),
    needless("connect.s3.delete.mode", "nothing is deleted"),
    needless("connect.s3.write.mode", "only what memory does not hold is written to `buffer.dir`"),
    needless("connect.s3.commit.retry.*", "there is no copy and no delete to repeat"),
    needless("connect.s3.guard.*", "one process leads, and others are fenced by the group's own commits"),
    refused("connect.s3.source.*", "is an option of Lenses' source; remove it"),
    *CONNECT_OPTIONS,
)

PROPERTIES: Final[tuple[VendorOption, ...]] = (
    kept("flush.count", "`rotate.records`, 50000 where it is absent; must be 1 with `BYTES`"),
    kept("flush.size", "`rotate.bytes`, 500000000 where it is absent"),
    kept("flush.interval", "`rotate.age.ms` since the last closing, 3600 seconds where it is absent"),
    kept("partition.include.keys", "`name=` before each directory in `file.name.template`"),
    kept("padding.type", "`side=left` or `side=right` of the numbers in names; `NoOp` pads none"),
    kept("padding.char", "`char=` of the numbers in names"),
    kept("padding.length.offset", "`{{end_offset:padding=..}}`, 12 where no length is given"),
    kept("padding.length.partition", "`{{partition:padding=..}}`; alone it takes the offset's padding away"),
    kept("key.suffix", "text before the extension in `file.name.template`"),
    kept("store.envelope", "`output.envelope`, with `JSON`, `AVRO` and `PARQUET`"),
    kept("store.envelope.fields.key", "`key` in `output.fields`"),
    kept("store.envelope.fields.value", "`value` in `output.fields`"),
    kept("store.envelope.fields.headers", "`headers` in `output.fields`"),
    kept(
        "store.envelope.fields.metadata",
        "`topic`, `partition`, `offset` and `timestamp` in `output.fields`, all or none",
    ),
    refused(
        "object.key.template",
        "is Lenses' template of names, which is not read: remove it and set file.name.template next to the "
        "statement",
    ),
    refused("read.text.*", "is a property of Lenses' source; remove it"),
    refused("post.process.*", "is a property of Lenses' source; remove it"),
)
"""The keys of `PROPERTIES(..)`."""


def property_row(name: str) -> VendorOption | None:
    """The row of a property, None where their sink has none of this name."""
    return next((each for each in PROPERTIES if each.matches(name)), None)


# -- The options of Lenses' S3 source, and what becomes of each ----------------------------------------------


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LISTING: Final = "everything below the prefix is listed, in full, at each poll"
_STATEMENT: Final = "the statement names the topic; Lenses' source does not read it either"
_SHARED: Final = _names(
    """
    connect.s3.aws.region connect.s3.aws.access.key connect.s3.aws.secret.key connect.s3.aws.auth.mode
    connect.s3.custom.endpoint connect.s3.path.style.access connect.s3.vhost.bucket
    connect.s3.http.max.retries connect.s3.http.retry.interval connect.s3.http.socket.timeout
    connect.s3.http.connection.timeout
    connect.s3.error.policy connect.s3.max.retries connect.s3.retry.interval connect.s3.aws.client
    connect.s3.config.profiles connect.progress.enabled connect.s3.log.metrics
    aws.region aws.custom.endpoint aws.vhost.bucket aws.auth.mode aws.access.key aws.secret.key
    """
)


SOURCE_OPTIONS: Final[tuple[VendorOption, ...]] = (
    kept(
        "connect.s3.kcql",
        "one statement: `topic`, `aws.s3.bucket.name`, `aws.s3.prefix` (with a slash at its end), "
        "`input.format`; several are refused",
    ),
    changed("connect.s3.source.partition.search.interval", "`poll.interval.ms`, 300000 by default"),
    changed(
        "connect.s3.source.partition.search.continuous",
        "`true`; with `false` a warning names `--until-idle`, which ends the command when all is read",
    ),
    changed(
        "connect.s3.source.partition.search.excludes",
        "`object.exclude`: keys that have the text in a directory's name, as there, but at any depth, not "
        "only where Lenses searches; `.indexes` by default",
    ),
    needless("connect.s3.source.partition.search.recurse.levels", _LISTING),
    needless("connect.s3.source.partition.search.depth", _LISTING),
    changed(
        "connect.s3.partition.search.interval",
        "`connect.s3.source.partition.search.interval`, by its name of older versions",
    ),
    changed(
        "connect.s3.partition.search.continuous",
        "`connect.s3.source.partition.search.continuous`, by its name of older versions",
    ),
    needless("connect.s3.partition.search.recurse.levels", _LISTING),
    kept("connect.s3.source.extension.includes", "`object.include`, as `*.EXTENSION` in any case, as there"),
    kept("connect.s3.source.extension.excludes", "`object.exclude`, as `*.EXTENSION` in any case, as there"),
    changed(
        "connect.s3.source.partition.extractor.type",
        "`hierarchical` is `input.layout=lenses` without an envelope; `regex` is refused: "
        "`file.name.template` with `{{partition}}`",
    ),
    changed("connect.s3.source.partition.extractor.regex", "as `regex` above; `none` is no expression"),
    changed(
        "connect.s3.ordering.type",
        "a restore is in the order of offsets; other objects are read side by side, each in its own order",
    ),
    changed("connect.s3.source.ordering.type", "as `connect.s3.ordering.type`"),
    refused(
        "connect.s3.source.write.watermark.header",
        "writes a header of its own form; remove it and set record.headers=source for bucket, key, ETag and "
        "position of each record",
    ),
    needless("connect.s3.source.late.arrival.interval", "late objects are found by each listing"),
    needless("connect.s3.source.empty.results.backoff.*", "a listing is at each `poll.interval.ms`"),
    needless(
        "connect.s3.compression.codec",
        "first bytes say how an object is compressed (`file.compression.type=auto`; `none` with `BYTES`)",
    ),
    needless("connect.s3.compression.level", "nothing is compressed"),
    needless("connect.s3.pool.max.connections", "each slot has its own connections"),
    needless("topics", _STATEMENT),
    needless("topics.regex", _STATEMENT),
    *(row for row in OPTIONS if row.name in _SHARED),
    *SOURCE_CONNECT_OPTIONS,
)
SOURCE_PROPERTIES: Final[tuple[VendorOption, ...]] = (
    kept(
        "store.envelope",
        "`true` is `input.layout=lenses` and `store.envelope`, with `JSON`, `AVRO` and `PARQUET`",
    ),
    changed("source.topic.from.envelope", "`true`: `topic` is left out, and names of objects say it"),
    changed(
        "read.text.mode",
        "with `TEXT`: `Regex` and `StartEndLine` are `text.start.pattern` and `text.end.pattern`; "
        "`StartEndTag` is refused, as records begin and end with lines here",
    ),
    changed(
        "read.text.regex", "`text.start.pattern`; each line that it matches as a whole, in UTF-8, is a record"
    ),
    changed("read.text.start.line", "`text.start.pattern`, of the whole line in any case"),
    changed(
        "read.text.end.line",
        "`text.end.pattern`, of the whole line in any case; the line of `read.text.start.line` is refused",
    ),
    changed("read.text.trim", "`false`; `true` is refused, as ends of records are kept"),
    changed(
        "read.text.last.end.line.missing",
        "`false`: a record without its end is a bad record; `true` is refused: leave `read.text.end.line` "
        "out for records that end before the next start",
    ),
    refused("read.text.start.tag", "records begin with lines here: use text.start.pattern"),
    refused("read.text.end.tag", "records end with lines here: use text.end.pattern"),
    needless("read.text.buffer.size", "lines may have any length up to `record.max.bytes`"),
    changed("post.process.action", "`post.action`: `Delete` is `delete`, `Move` is `move:PREFIX`"),
    changed("post.process.action.prefix", "PREFIX of `post.action=move:PREFIX`, with a slash"),
    changed(
        "post.process.action.bucket",
        "another one is `s3://BUCKET/` before PREFIX, or alone where the statement has no prefix: keys stay",
    ),
    needless("post.process.action.retain.dirs", "no objects are written to keep directories"),
    needless(
        "post.process.action.watermark.process.late.arrival",
        "every object ends with its action, whenever it comes",
    ),
)
"""The keys of `PROPERTIES(..)` in a source."""
