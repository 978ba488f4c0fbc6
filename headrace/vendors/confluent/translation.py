"""Confluent's S3 sink: its configuration in Headrace's own options."""

from collections.abc import Mapping
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.name_checks import DEFAULT_TEMPLATE
from headrace.options.vendor import Fate, Vendor
from headrace.options.vendor_translation import Translation
from headrace.vendors.confluent.options import (
    CONFLUENT_OPTIONS,
    FORMATS,
    HEADER_FORMATS,
    class_of,
    note_unused_formats,
    translate_storage,
)
from headrace.vendors.confluent.partitioners import Delimiters, name_template, translate_names
from headrace.vendors.connect.options import translate_connect

# -- Confluent's format classes, codecs, keys, headers and tombstones as what objects hold -------------------

_AVRO_CODECS: Final = {"null": "none", "deflate": "gzip", "snappy": "snappy", "bzip2": "bzip2"}
_PARQUET_CODECS: Final = {
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4_raw": "lz4",
}
_TEXT_CODECS: Final = {"none": "none", "gzip": "gzip"}
_FORMAT: Final = "format.class"
_TEXTS: Final = frozenset({"jsonl", "bytes"})
_LEVEL_OF_SIDES: Final = (
    "objects of keys and headers are compressed by gzip's own level here: `file.compression.level` is of "
    "values, which are not compressed so"
)


def translate_formats(given: Translation) -> None:
    """Write what objects of values hold, and those next to them."""
    given.own("output.layout", "confluent")
    _refuse_full_records(given)
    wanted = class_of(given, _FORMAT, FORMATS, "jsonl")
    if not given.is_given(_FORMAT):
        given.refuse(_FORMAT, f"is missing; add one of {', '.join(FORMATS)}")
    given.own("output.format", wanted, by=_FORMAT)
    codecs = _codecs(given)
    codec, option = codecs[wanted]
    given.own("file.compression.type", codec, by=option)
    given.own("json.format", "connect")
    given.own(
        "json.decimal.format",
        given.choice("json.decimal.format", {"BASE64": "base64", "NUMERIC": "numeric"}, "base64"),
        by="json.decimal.format",
    )
    given.rename("schema.compatibility", "schema.compatibility")
    given.own("output.avro.enhanced.schemas", _word(given, "enhanced.avro.schema.support", default=True))
    given.own("output.avro.connect.metadata", _word(given, "connect.meta.data", default=True))
    given.own("output.avro.optional.map.keys", _word(given, "allow.optional.map.keys", default=False))
    extension = "format.bytearray.extension"
    given.own("output.bytes.extension", given.exact_text(extension, ".bin").strip(), by=extension)
    separator = given.exact_text("format.bytearray.separator", "\n")
    given.own("output.separator", _escaped(separator), by="format.bytearray.separator")
    sides = _translate_sides(given, codecs)
    gzipped = {form for form in _TEXTS if codecs[form][0] == "gzip"}
    are_sides = not gzipped.isdisjoint(sides.values())
    _translate_level(given, are_values=wanted in gzipped, are_sides=are_sides)
    note_unused_formats(given, wanted, sides)


def _refuse_full_records(given: Translation) -> None:
    """Refuse rows of whole records, those that have their schema with them, and lists of two levels."""
    option, known = "mode", ("GENERIC", "BACKUP_FULL_RECORD")
    if given.choice(option, {each: each for each in known}, "GENERIC") != "GENERIC":
        given.refuse(
            option,
            "puts keys, headers and times into rows of Confluent's own, which are not written here; remove "
            f"it, and set output.layout=headrace, file.name.template={DEFAULT_TEMPLATE} and "
            "behavior.on.null.values=write, or store.kafka.keys=true and store.kafka.headers=true",
        )
    option = "parquet.avro.write-old-list-structure"
    if given.flag(option, default=False):
        given.refuse(option, "makes lists of two levels, which are written with three here; remove it")
    elif given.is_given(option):
        given.note(option, Fate.NEEDLESS, "lists are written with three levels anyway")
    option = "format.json.schema.enable"
    if given.flag(option, default=False):
        given.refuse(option, "writes a schema into every row, which is not done here; remove it")


def _word(given: Translation, option: str, *, default: bool) -> str:
    return "true" if given.flag(option, default=default) else "false"


def _codecs(given: Translation) -> dict[str, tuple[str, str]]:
    """The compression of objects of each format, and the option that says it."""
    text = given.choice("s3.compression.type", _TEXT_CODECS, "none")
    return {
        "avro": (given.choice("avro.codec", _AVRO_CODECS, "none"), "avro.codec"),
        "parquet": (given.choice("parquet.codec", _PARQUET_CODECS, "snappy"), "parquet.codec"),
        **dict.fromkeys(_TEXTS, (text, "s3.compression.type")),
    }


def _translate_level(given: Translation, *, are_values: bool, are_sides: bool) -> None:
    """Write how hard values are compressed, where they are gzipped; of keys alone it is gzip's own."""
    option = "s3.compression.level"
    level = given.integer(option, -1, low=-1, high=9)
    if are_values:
        if level >= 0:
            given.own("file.compression.level", level, by=option)
    elif are_sides:
        if given.is_given(option):
            given.note(option, Fate.NEEDLESS, _LEVEL_OF_SIDES)
    else:
        given.unused(option, without="s3.compression.type=gzip of JSON or bytes")


def _translate_sides(given: Translation, codecs: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Write objects of keys and headers, and where tombstones go; the formats of these objects."""
    keys = given.flag("store.kafka.keys", default=False)
    headers = given.flag("store.kafka.headers", default=False)
    sides = [name for name, wanted in (("keys", keys), ("headers", headers)) if wanted]
    if sides:
        given.own("sidecars", ",".join(sides), by="store.kafka.keys" if keys else "store.kafka.headers")
    known = {"keys": FORMATS, "headers": HEADER_FORMATS}
    found = {side: class_of(given, f"{side}.format.class", known[side], "avro") for side in sides}
    for side, form in found.items():
        given.own(f"sidecars.{side}.format", form, by=f"{side}.format.class")
        given.own(f"sidecars.{side}.compression.type", codecs[form][0], by=f"{side}.format.class")
    for side in known.keys() - found.keys():
        given.unused(f"{side}.format.class", without=f"store.kafka.{side}=true")
    _translate_tombstones(given, has_keys=keys)
    return found


def _translate_tombstones(given: Translation, *, has_keys: bool) -> None:
    nulls = given.choice(
        "behavior.on.null.values", {each: each for each in ("fail", "ignore", "write")}, "fail"
    )
    given.own("behavior.on.null.values", _nulls(given, nulls), by="behavior.on.null.values")
    option = "tombstone.encoded.partition"
    directory = given.text(option, "tombstone")
    if not has_keys and given.own_given("output.layout") == LayoutName.HEADRACE:
        # Its rows hold a record without a value as well.
        given.unused(option, without="store.kafka.keys=true")
        return
    if nulls != "write":
        given.unused(option, without="behavior.on.null.values=write")
        return
    if not has_keys:
        keys = "store.kafka.keys"
        missing = "" if given.is_given(keys) else "is missing; it "
        given.refuse(
            keys, f"{missing}must be true with behavior.on.null.values=write: a tombstone is its key"
        )
        return
    if "{" in directory or "}" in directory:
        given.refuse(option, "has braces, which names have around variables here; set another")
        return
    # Whole, for its directories are between whatever `directory.delim` is.
    names = name_template(given, Delimiters.of(given), [directory])
    given.own("sidecars.tombstones.template", names, by=option)


def _nulls(given: Translation, nulls: str) -> str:
    """What becomes of nulls: those that are ignored go to the dead letter topic there, if there is one."""
    option = "report.null.values.to.dlq"
    is_reported = given.flag(option, default=True)
    has_dead_letters = bool(given.own_given("errors.deadletterqueue.topic.name"))
    if nulls != "ignore":
        given.unused(option, without="behavior.on.null.values=ignore")
    elif not has_dead_letters or given.own_given("errors.tolerance").lower() != "all":
        # With a tolerance of none its task ends at the first one.
        given.unused(option, without="errors.tolerance=all and errors.deadletterqueue.topic.name")
    elif is_reported:
        return "report"
    return nulls


def _escaped(separator: str) -> str:
    """A separator as `output.separator` spells it."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(
        named.get(each, each if each.isprintable() or ord(each) > 0xFF else f"\\x{ord(each):02X}")  # noqa: PLR2004  # the end of Latin-1
        for each in separator
    )


# -- Confluent's S3 sink: its configuration in Headrace's own options ----------------------------------------


def _translate(given: Translation) -> None:
    translate_storage(given)
    translate_names(given)
    translate_formats(given)
    translate_connect(given)
    if not given.is_given("header.converter") and not given.worker("header.converter"):
        _leave_headers(given)


def _leave_headers(given: Translation) -> None:
    """Headers that are not stored are not read: Connect's default converter takes any bytes for text."""
    if not given.flag("store.kafka.headers", default=False):
        given.own("header.converter", "org.apache.kafka.connect.converters.ByteArrayConverter")


CONFLUENT: Final = Vendor(
    name="Confluent's S3 sink",
    layout=LayoutName.CONFLUENT,
    classes=("io.confluent.connect.s3.S3SinkConnector",),
    options=CONFLUENT_OPTIONS,
    translate=_translate,
)
