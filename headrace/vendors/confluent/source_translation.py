"""Confluent's S3 source, for files and for archives of its sink: its configuration in our options."""

import re
import string
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.choices import Compression
from headrace.options.object_endings import object_ending
from headrace.options.sink_settings import OutputFormat
from headrace.options.transforms.java_regex import JavaRegexError, java_regex
from headrace.options.value_types import listed
from headrace.options.vendor import (
    CONFLUENT_SOURCE,
    SOURCE_CLASS,
    Fate,
    Vendor,
    VendorOption,
    changed,
    kept,
    needless,
    refused,
)
from headrace.options.vendor_translation import Translation
from headrace.vendors.confluent.options import (
    CONFLUENT_OPTIONS,
    FORMATS,
    PROVIDER_OPTIONS,
    SOURCE_CREDENTIALS,
    class_of,
    translate_calls,
    translate_credentials,
    translate_endpoint,
    translate_proxy,
)
from headrace.vendors.connect.options import (
    ONE_BUCKET,
    SOURCE_CONNECT_OPTIONS,
    translate_source_converters,
    warn_of_bad_rows,
)

# -- The options of Confluent's S3 source, and what becomes of each ------------------------------------------

_OF_SINK: Final = "an option of Confluent's sink, which its source does not read"
_NAMES: Final = "names of objects are read whatever partitioner wrote them"
_ALL_TOPICS: Final = (
    "restores no less than all topics, as in Confluent's source, which does not read it; write "
    "object.include=topics/NAME/* for one of them, where topics.dir is topics"
)
_LICENSE: Final = "no license of another vendor is asked for"
# Options that both of Confluent's connectors have, with one meaning.
_SHARED: Final = (
    "s3.bucket.name",
    "s3.region",
    *PROVIDER_OPTIONS,
    "aws.access.key.id",
    "aws.secret.access.key",
    "s3.wan.mode",
    "s3.part.retries",
    "s3.retry.backoff.ms",
    "s3.proxy.url",
    "s3.proxy.user",
    "s3.proxy.password",
    "s3.path.style.access.enabled",
    "store.url",
)


CONFLUENT_SOURCE_OPTIONS: Final[tuple[VendorOption, ...]] = (
    changed("mode", "`RESTORE_BACKUP`, its default, is `input.layout=confluent`; `GENERIC` is `none`"),
    changed("topics.dir", "`aws.s3.prefix`, with `directory.delim` after it; `topics` by default"),
    changed(
        "topic.regex.list",
        "with `GENERIC` `topic` and `file.name.template`, for one pair; the expression has to match the "
        "whole name, with or without `topics.dir`",
    ),
    changed(
        "format.class",
        "`input.format`: JsonFormat is `jsonl`, ByteArrayFormat `bytes`, with `GENERIC` lines of `text`, "
        "with `text.exact`",
    ),
    changed(
        "format.json.schema.enable",
        "`false`, its default, is what is read; `true` is refused of JSON, whose rows of schema and payload "
        "are values as they are",
    ),
    kept("s3.poll.interval.ms", "`poll.interval.ms`, 60000 by default"),
    changed("behavior.on.error", "`errors.tolerance`: `fail` is `none`, `ignore` and `log` are `all`"),
    changed(
        "parse.error.topic.prefix",
        "`errors.deadletterqueue.topic.name`: it, a hyphen and the name of the connector",
    ),
    kept("directory.delim", "`directory.delim` in a restore, and the end of `aws.s3.prefix`"),
    kept("file.delim", "`file.delim` in a restore"),
    kept("tombstone.encoded.partition", "`tombstone.encoded.partition` in a restore"),
    changed(
        "format.bytearray.separator",
        "`format.bytearray.separator` in a restore; with `GENERIC` only a line feed",
    ),
    changed(
        "file.discovery.starting.timestamp",
        "0; another time is refused: `include.existing=false` begins with what comes after the first start",
    ),
    changed(
        "format.bytearray.extension",
        "names are read whatever their ending is of dots, letters, digits, `-` and `_`, others are refused; "
        "with one of another format `keys.format.class` says what keys are",
    ),
    changed("keys.format.class", "`restore.keys.format`, where names do not show that keys are bytes"),
    changed(
        "filename.regex",
        "decides nothing: topic and partition are between `file.delim`; one that finds them otherwise is "
        "refused, and one that finds nothing in names of Confluent's sink has a warning",
    ),
    needless("folders", "folders are found by listing the prefix"),
    needless("partitioner.class", _NAMES),
    needless("partition.field.name", _NAMES),
    needless("path.format", _NAMES),
    needless("record.batch.max.size", "there is no poll; `transaction.boundary.*` closes transactions"),
    needless("task.batch.size", "objects are given to slots one by one, as these get free"),
    needless("schema.cache.size", "schemas are remembered anyway"),
    needless("s3.ssea.name", "S3 decrypts by itself what it encrypted"),
    needless("s3.http.send.expect.continue", "nothing is uploaded"),
    refused(
        "s3.sse.customer.key",
        "objects under keys of customers (SSE-C) are not read here; copy them within S3 with "
        "`--sse-c-copy-source` and S3's own encryption, then remove it",
    ),
    *(refused(name, _ALL_TOPICS) for name in ("topics", "topics.regex")),
    *(
        needless(name, _OF_SINK)
        for name in ("schema.compatibility", "behavior.on.null.values", "json.decimal.format", "timezone")
    ),
    needless("confluent.license", _LICENSE),
    needless("confluent.topic.*", _LICENSE),
    needless("confluent.metrics.*", "metrics are those of `http.listen`"),
    *SOURCE_CREDENTIALS,
    *(row for row in CONFLUENT_OPTIONS if row.name in _SHARED),
    *SOURCE_CONNECT_OPTIONS,
)

# -- Confluent's S3 source in our options --------------------------------------------------------------------

_GENERIC_PACKAGE: Final = "io.confluent.connect.cloud.storage.source.format.CloudStorage"
_FORMATS: Final = {
    **FORMATS,
    f"{_GENERIC_PACKAGE}AvroFormat": "avro",
    f"{_GENERIC_PACKAGE}JsonFormat": "jsonl",
    f"{_GENERIC_PACKAGE}ByteArrayFormat": "bytes",
}
_MODES: Final = {"RESTORE_BACKUP": True, "GENERIC": False}
_LIST: Final = "topic.regex.list"
_REPETITION: Final = re.compile(r"\{[0-9]*,[0-9]*\}")
_LEADING_FLAGS: Final = re.compile(r"\(\?([ims]+)\)")
_SEPARATOR: Final = "format.bytearray.separator"
_FORMAT: Final = "format.class"
_EXTENSION: Final = "format.bytearray.extension"
_KEYS: Final = "keys.format.class"
_FILE_NAME: Final = "filename.regex"
# What names of objects may end with: dots, and words after them.
_READ_ENDING: Final = re.compile(r"(?:\.[A-Za-z0-9_-]+)*")
# By which names say that an object is Avro, Parquet or JSON.
_OTHER_ENDINGS: Final = frozenset({"avro", "parquet", "json", "jsonl"})
# What a sink may have between topic, partition and offset.
_DELIMITERS: Final = (*string.punctuation, " ", "--", "__")
_OF_NAMES: Final = ("directory.delim", "file.delim", "tombstone.encoded.partition")


def _translate(given: Translation) -> None:
    given.rename("name", "name")
    given.rename("s3.bucket.name", "aws.s3.bucket.name")
    if "," in given.text("s3.bucket.name"):
        given.refuse("s3.bucket.name", ONE_BUCKET)
    given.own("aws.s3.region", given.text("s3.region", "us-west-2"), by="s3.region")
    translate_endpoint(given)
    translate_credentials(given, is_source=True)
    translate_proxy(given)
    translate_calls(given)
    poll = given.integer("s3.poll.interval.ms", 60_000, low=1, high=86_400_000)
    given.own("poll.interval.ms", max(poll, 100), by="s3.poll.interval.ms")
    restores = given.choice("mode", _MODES, default=True)
    translate_source_converters(given, restores=restores, typed=_typed(given) if restores else ())
    _translate_errors(given)
    _translate_start(given)
    _refuse_schemas(given, restores=restores)
    if restores:
        _translate_restore(given)
    else:
        _translate_files(given)


def _prefix(given: Translation) -> str:
    directory = given.exact_text("topics.dir", "topics").strip()
    delimiter = given.exact_text("directory.delim", "/").strip()
    return f"{directory.removesuffix(delimiter)}{delimiter}" if directory else ""


def _format(given: Translation) -> str:
    if not given.is_given(_FORMAT):
        given.refuse(_FORMAT, f"is missing; add one of {', '.join(_FORMATS)}")
    return class_of(given, _FORMAT, _FORMATS, "jsonl")


def _refuse_schemas(given: Translation, *, restores: bool) -> None:
    """Refuse JSON with its schema in each row: the whole row would be the value."""
    option = "format.json.schema.enable"
    if not given.flag(option, default=False):
        return
    if _format(given) != "jsonl":
        given.note(option, Fate.NEEDLESS, "decides nothing without JsonFormat")
    elif restores:
        given.refuse(
            option,
            "has the payload of rows of schema and payload restored, which is not done here: remove it, and "
            "each row is a value as it is stored",
        )
    else:
        given.refuse(option, "reads the payload of rows: remove it, and set value.source=field:payload")


def _typed(given: Translation) -> list[str]:
    """The converters of what an archive has in Avro or Parquet."""
    forms = {"value.converter": _format(given), "key.converter": class_of(given, _KEYS, FORMATS, "avro")}
    return [converter for converter, form in forms.items() if form in {"avro", "parquet"}]


def _translate_restore(given: Translation) -> None:
    """An archive of Confluent's sink: names say topic, partition and order."""
    given.own("input.layout", "confluent", by="mode")
    given.own("aws.s3.prefix", _prefix(given), by="topics.dir")
    # Names say of Avro and JSON what they are. Any ending may be that of bytes: what is given is believed.
    form = _format(given)
    if form == "bytes":
        given.own("input.format", "bytes", by=_FORMAT)
    for option in _OF_NAMES:
        _translate_of_names(given, option)
    _translate_file_names(given)
    _translate_separator(given)
    _translate_keys(given)
    if given.is_given(_LIST):
        given.note(_LIST, Fate.NEEDLESS, "decides nothing without mode=GENERIC, as in Confluent's source")
    given.warn(
        "keys, headers and tombstones of the archive are restored as well, where the sink stored them "
        "(restore.sidecars, restore.tombstones); those whose place is not proven are quarantined"
    )


def _translate_of_names(given: Translation, option: str) -> None:
    """Pass on what names are made of, without blanks around it, as Connect reads it; blank is a problem."""
    if given.is_given(option):
        given.own(option, given.text(option), by=option)
    elif not given.exact_text(option, "default").strip():
        given.refuse(
            option, "is blank, and keys without it cannot be read; remove it, or set what the sink had"
        )


def _translate_file_names(given: Translation) -> None:
    """Refuse an expression that finds topic and partition elsewhere than between delimiters."""
    if not given.is_given(_FILE_NAME):
        return
    between = given.text("file.delim", "+")
    is_found = _finds_by(given, between)
    if is_found is None and any(_finds_by(given, other) for other in _DELIMITERS):
        is_found = False
    if is_found is False:
        given.refuse(
            _FILE_NAME,
            f"finds topic and partition otherwise than between {between}: set file.delim to what the sink "
            "had between topic, partition and offset, and remove it",
        )
        return
    given.note(_FILE_NAME, Fate.NEEDLESS, "topic and partition are found by file.delim")
    if is_found is None:
        given.warn(
            f"{_FILE_NAME} decides nothing: topic and partition are found between file.delim ({between}); "
            "set that to what the sink had between topic, partition and offset"
        )


def _finds_by(given: Translation, between: str) -> bool | None:
    """Whether the expression finds topic and partition in names with this delimiter; None: it finds nothing.

    Names of topics that it has itself are not tried, nor what Python's expressions have no counterpart for.
    """
    try:
        expression = re.compile(java_regex(given.text(_FILE_NAME)), re.ASCII)
    except JavaRegexError:
        return None
    extension = given.text(_EXTENSION, ".bin")
    endings = {
        object_ending(LayoutName.CONFLUENT, form, packed, extension)
        for form in map(OutputFormat, FORMATS.values())
        for packed in Compression
    }
    found = [expression.search(f"topic{between}12{between}0000000345{each}") for each in endings]
    groups = {each.groups()[:2] for each in found if each is not None}
    return ("topic", "12") in groups if groups else None


def _translate_separator(given: Translation) -> None:
    """Pass on what is after each value of bytes; white space counts in it, as in Confluent's sink."""
    if not given.exact_text(_SEPARATOR, "\n"):
        given.refuse(
            _SEPARATOR,
            "is empty, and values with nothing between them cannot be told apart; remove it where the sink "
            "wrote line feeds",
        )
        return
    given.rename(_SEPARATOR, _SEPARATOR, may_be_blank=True)


def _translate_keys(given: Translation) -> None:
    """Say that keys are bytes where the endings of their names are those of another format."""
    extension = given.text(_EXTENSION)
    keys = class_of(given, _KEYS, FORMATS, "")
    if "bytes" in {_format(given), keys} and _READ_ENDING.fullmatch(extension) is None:
        given.refuse(
            _EXTENSION,
            "is no ending by which names are read here: a dot, and letters, digits, - and _ after it; copy "
            "the objects to names with such a one",
        )
    if _OTHER_ENDINGS.isdisjoint(extension.split(".")):
        return
    if not given.is_given(_KEYS):
        given.refuse(
            _KEYS,
            f"is missing; with {_EXTENSION}={extension} names do not show whether keys are bytes: add it as "
            f"the sink had it ({next(iter(FORMATS))} unless it was set)",
        )
    elif keys == "bytes":
        given.own("restore.keys.format", keys, by=_KEYS)


def _translate_files(given: Translation) -> None:
    """Files of any names, into one topic."""
    prefix = _prefix(given)
    given.own("aws.s3.prefix", prefix, by="topics.dir")
    given.own("key.source", "none")
    for option in (_EXTENSION, _KEYS, _FILE_NAME):
        given.note(option, Fate.NEEDLESS, "decides nothing with mode=GENERIC, which reads no keys")
    given.unused("file.delim", "tombstone.encoded.partition", without="mode=RESTORE_BACKUP")
    form = _format(given)
    if form != "bytes":
        given.unused(_SEPARATOR, without="ByteArrayFormat")
    else:
        given.own("text.exact", "true", by=_FORMAT)
        if given.exact_text(_SEPARATOR, "\n") not in {"\n", "\\n"}:
            given.refuse(
                _SEPARATOR,
                "splits no files here: they are cut at line feeds; remove it, and where lines end with CRLF "
                "set text.exact=false, which leaves the CR out",
            )
    given.own("input.format", "text" if form == "bytes" else form, by=_FORMAT)
    if form == "jsonl":
        given.warn(
            "JSON is read line by line; a file that is one array, or of objects over several lines, needs "
            "input.format=json next to format.class"
        )
    _translate_pair(given, prefix)


def _translate_pair(given: Translation, prefix: str) -> None:
    if not given.is_given(_LIST) and given.own_given("file.name.template"):
        return  # it says which files are read, and with `topic` or a variable where they go
    # One problem is enough: what the list would have said is not missing besides.
    given.own("file.name.template", ".*", by=_LIST)
    given.own("topic", "unread", by=_LIST)
    pairs = listed(given.text(_LIST))
    if not pairs:
        given.refuse(_LIST, f"is missing; mode=GENERIC needs it, such as {_LIST}=TOPIC:.*")
        return
    if _REPETITION.search(given.text(_LIST)) is not None:
        given.refuse(
            _LIST,
            "has a comma in a repetition, and commas are between pairs: write the repetition out ({1,3} of "
            "[0-9] is [0-9][0-9]?[0-9]?), or leave the list out, and set topic and file.name.template",
        )
        return
    if len(pairs) > 1:
        given.refuse(
            _LIST,
            "names several pairs; one connector brings files to one topic here: write a configuration, with "
            "another name, for each (in an expression a comma is \\x2c)",
        )
        return
    topic, colon, expression = pairs[0].partition(":")
    if not colon or not topic.strip() or not expression.strip():
        given.refuse(_LIST, "expected TOPIC:EXPRESSION, such as orders:.*")
        return
    try:
        found = java_regex(expression.strip())
    except JavaRegexError as error:
        given.refuse(_LIST, f"has an expression without a counterpart here: {error}")
        return
    given.own("topic", topic.strip(), by=_LIST)
    given.own("file.name.match", "search")
    given.own("file.name.template", _of_whole_name(found, prefix), by=_LIST)


def _of_whole_name(expression: str, prefix: str) -> str:
    """The template of names that an expression matches as a whole, with or without the prefix."""
    if expression == ".*":
        return ".*"
    found = _LEADING_FLAGS.match(expression)
    flags, rest = (found[1], expression[found.end() :]) if found else ("", expression)
    return f"^{f'(?:{re.escape(prefix)})?' if prefix else ''}(?{flags}:{rest})$"


def _translate_errors(given: Translation) -> None:
    option, topic = "behavior.on.error", "parse.error.topic.prefix"
    goes_on = given.choice(option, {"fail": False, "ignore": True, "log": True}, default=False)
    if given.is_given(option):
        given.own("errors.tolerance", "all" if goes_on else "none", by=option)
    prefix = given.text(topic)
    if prefix and goes_on:
        given.own("errors.deadletterqueue.topic.name", f"{prefix}-{given.text('name')}", by=topic)
        return
    if prefix:
        given.note(topic, Fate.NEEDLESS, f"decides nothing with {option}=fail")
    warn_of_bad_rows(given, passed_by=option if goes_on else None)


def _translate_start(given: Translation) -> None:
    option = "file.discovery.starting.timestamp"
    if given.integer(option, 0, low=0):
        given.refuse(
            option,
            "begins at a time that is not asked for here; remove it, and set include.existing=false to begin "
            "with what comes after the first start, or native.start.key to begin after a key",
        )


CONFLUENT_SOURCE_VENDOR: Final = Vendor(
    name="Confluent's S3 source",
    layout=LayoutName.CONFLUENT,
    classes=(CONFLUENT_SOURCE,),
    options=CONFLUENT_SOURCE_OPTIONS,
    translate=_translate,
    own_class=SOURCE_CLASS,
)
