"""What rows of other sinks' layouts have that Headrace's own have not."""

from headrace.options.declarations.option import Group, option
from headrace.options.restoring import CsvEncoding, Newlines
from headrace.options.sink_forms import AVRO_CODEC, DECIMALS, EXTENSION
from headrace.options.value_types import BOOLEAN, choice

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
