"""Options of a sink's objects next to those of values, and of what rows of other sinks' layouts have."""

from headrace.options.choices import Compression, CsvEncoding, Newlines
from headrace.options.declarations.option import Group, option, optional
from headrace.options.sink_forms import (
    AVRO_CODEC,
    DECIMALS,
    DIRECTORY,
    EXTENSION,
    HEADERS_FORMAT,
    KEYS_FORMAT,
    SIDECARS,
)
from headrace.options.value_types import BOOLEAN, TEXT, choice

VALUE_ENCODING = option(
    "output.value.encoding",
    choice(CsvEncoding),
    "base64",
    Group.OUTPUT,
    "How values are written in the csv of `output.layout=aiven`: as `base64`, or as they are (`none`), so "
    "that one with a comma or a line end cannot be told from several. Keys and headers are always base64.",
    importance="LOW",
)
BYTES_EXTENSION = option(
    "output.bytes.extension",
    EXTENSION,
    ".bin",
    Group.OUTPUT,
    "What names of objects of `bytes` end with, before the compression's own ending.",
    importance="LOW",
)
JSON_DECIMALS = option(
    "json.decimal.format",
    DECIMALS,
    "base64",
    Group.OUTPUT,
    "Decimals in the JSON of `output.layout=confluent`: `base64` of their bytes, or `numeric`.",
    importance="LOW",
)
AVRO_ENHANCED = option(
    "output.avro.enhanced.schemas",
    BOOLEAN,
    "true",
    Group.OUTPUT,
    "In Avro and Parquet of `output.layout=confluent` enums stay enums and types keep their full names.",
    importance="LOW",
)
AVRO_METADATA = option(
    "output.avro.connect.metadata",
    BOOLEAN,
    "true",
    Group.OUTPUT,
    "Schemas of Avro and Parquet of `output.layout=confluent` carry what only Kafka Connect's have (names, "
    "versions, parameters, documentation), as properties `connect.*`.",
    importance="LOW",
)
AVRO_MAP_KEYS = option(
    "output.avro.optional.map.keys",
    BOOLEAN,
    "false",
    Group.OUTPUT,
    "Maps whose keys may be null are maps in Avro and Parquet of `output.layout=confluent` too, instead of "
    "lists of entries.",
    importance="LOW",
)
INNER_CODEC = option(
    "output.avro.codec",
    AVRO_CODEC,
    "null",
    Group.OUTPUT,
    "The compression inside the Avro of `output.layout=aiven`, in Avro's words; `file.compression.type` is "
    "around the whole file there.",
    importance="LOW",
)
NEWLINES = option(
    "output.newlines",
    choice(Newlines),
    "kept",
    Group.OUTPUT,
    "Line feeds in texts of `output.layout=lenses`, in `text` and in bare `jsonl`: `kept`, or `escaped`, a "
    "backslash and `n`, as Lenses' sink writes them, which cannot be told from such texts afterwards.",
    importance="LOW",
)


SIDECAR_OBJECTS = option(
    "sidecars",
    SIDECARS,
    "none",
    Group.OUTPUT,
    "Keys and headers in objects of their own next to that of the values, row by row: `keys`, `headers` or "
    "both. What is there is no part of `output.fields`. A record without a key, or without headers, is then "
    "a bad record.",
)
SIDECAR_KEYS_FORMAT = option(
    "sidecars.keys.format",
    KEYS_FORMAT,
    "avro",
    Group.OUTPUT,
    "What objects of keys hold: `avro` and `parquet` keep bytes, text and schemas apart, `jsonl` is a JSON "
    "text a line (bytes in base64), `bytes` the keys with `output.separator` after each.",
    importance="LOW",
)
SIDECAR_HEADERS_FORMAT = option(
    "sidecars.headers.format",
    HEADERS_FORMAT,
    "avro",
    Group.OUTPUT,
    "What objects of headers hold: `avro`, `parquet` or `jsonl`. Their values are text, in base64 unless "
    "`header.converter` reads them as text.",
    importance="LOW",
)
SIDECAR_KEYS_COMPRESSION = option(
    "sidecars.keys.compression.type",
    choice(Compression),
    "auto",
    Group.OUTPUT,
    "The compression of objects of keys. `auto` is that of the values where the format takes it, else the "
    "format's own default.",
    importance="LOW",
)
SIDECAR_HEADERS_COMPRESSION = option(
    "sidecars.headers.compression.type",
    choice(Compression),
    "auto",
    Group.OUTPUT,
    "The compression of objects of headers, as `sidecars.keys.compression.type`.",
    importance="LOW",
)
TOMBSTONE_DIRECTORY = optional(
    "sidecars.tombstones.directory",
    DIRECTORY,
    Group.OUTPUT,
    "Records without a value go into objects of keys (and headers) alone, in this directory: it takes the "
    "place of those between that of the topic and the file in `file.name.template`. Needs `keys` in "
    "`sidecars`.",
    default_says="they are rows of the other objects",
    importance="LOW",
)
TOMBSTONE_TEMPLATE = optional(
    "sidecars.tombstones.template",
    TEXT,
    Group.OUTPUT,
    "The names of such objects as a whole, as `file.name.template`, where its directories are not between "
    "slashes. In the place of `sidecars.tombstones.directory`.",
    default_says="made of `sidecars.tombstones.directory`",
    importance="LOW",
)
