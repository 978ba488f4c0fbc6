"""A sink's options for objects of keys, headers and tombstones next to those of values."""

from headrace.options.choices import Compression
from headrace.options.declarations.option import Group, option, optional
from headrace.options.sink_forms import DIRECTORY, HEADERS_FORMAT, KEYS_FORMAT, SIDECARS
from headrace.options.value_types import choice

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
