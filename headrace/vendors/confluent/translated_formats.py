"""Confluent's format classes, codecs, keys, headers and tombstones as what objects hold."""

from typing import Final

from headrace.options.vendor_translation import Translation
from headrace.vendors.confluent.classes import FORMATS, HEADER_FORMATS, class_of

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


def translate_formats(given: Translation) -> None:
    """Write what objects of values hold, and those beside them."""
    given.own("output.layout", "confluent")

    wanted = class_of(given, _FORMAT, FORMATS, "jsonl")
    if not given.is_given(_FORMAT):
        given.refuse(_FORMAT, f"is missing; add one of {', '.join(FORMATS)}")
    given.own("output.format", wanted, by=_FORMAT)
    _translate_codecs(given, wanted)
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
    given.rename("format.bytearray.extension", "output.bytes.extension")
    separator = given.exact_text("format.bytearray.separator", "\n")
    given.own("output.separator", _escaped(separator), by="format.bytearray.separator")
    _translate_sides(given)


def _word(given: Translation, option: str, *, default: bool) -> str:
    return "true" if given.flag(option, default=default) else "false"


def _translate_codecs(given: Translation, wanted: str) -> None:
    """Write the compression of values; options of other formats decide nothing, as there."""
    avro = given.choice("avro.codec", _AVRO_CODECS, "none")
    parquet = given.choice("parquet.codec", _PARQUET_CODECS, "snappy")
    text = given.choice("s3.compression.type", _TEXT_CODECS, "none")
    codecs = {"avro": (avro, "avro.codec"), "parquet": (parquet, "parquet.codec")}
    codec, option = codecs.get(wanted, (text, "s3.compression.type"))
    given.own("file.compression.type", codec, by=option)
    level = given.integer("s3.compression.level", -1, low=-1, high=9)
    if level >= 0 and codec == "gzip" and wanted not in codecs:
        given.own("file.compression.level", level, by="s3.compression.level")


def _translate_sides(given: Translation) -> None:
    """Write objects of keys and headers, and where tombstones go."""
    keys = given.flag("store.kafka.keys", default=False)
    headers = given.flag("store.kafka.headers", default=False)
    sides = [name for name, wanted in (("keys", keys), ("headers", headers)) if wanted]
    if sides:
        given.own("sidecars", ",".join(sides), by="store.kafka.keys" if keys else "store.kafka.headers")
    if keys:
        _translate_side(given, "keys", class_of(given, "keys.format.class", FORMATS, "avro"))
    if headers:
        _translate_side(given, "headers", class_of(given, "headers.format.class", HEADER_FORMATS, "avro"))
    nulls = given.choice(
        "behavior.on.null.values", {each: each for each in ("fail", "ignore", "write")}, "fail"
    )
    given.own("behavior.on.null.values", nulls, by="behavior.on.null.values")
    directory = given.text("tombstone.encoded.partition", "tombstone")
    if nulls != "write":
        return
    if not keys:
        given.refuse(
            "store.kafka.keys", "must be true with behavior.on.null.values=write: a tombstone is its key"
        )
    given.own("sidecars.tombstones.directory", directory, by="tombstone.encoded.partition")


def _translate_side(given: Translation, role: str, wanted: str) -> None:
    codecs = {
        "avro": given.choice("avro.codec", _AVRO_CODECS, "none"),
        "parquet": given.choice("parquet.codec", _PARQUET_CODECS, "snappy"),
    }
    codec = codecs.get(wanted, given.choice("s3.compression.type", _TEXT_CODECS, "none"))
    given.own(f"sidecars.{role}.format", wanted, by=f"{role}.format.class")
    given.own(f"sidecars.{role}.compression.type", codec, by=f"{role}.format.class")


def _escaped(separator: str) -> str:
    """A separator as `output.separator` spells it."""
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(
        named.get(each, each if each.isprintable() or ord(each) > 0xFF else f"\\x{ord(each):02X}")  # noqa: PLR2004  # the end of Latin-1
        for each in separator
    )
