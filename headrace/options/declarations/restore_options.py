"""Archives that a sink wrote: whose they are, and what of their records comes back."""

from headrace.options.choices import (
    CsvEncoding,
    Enveloped,
    Form,
    InputLayout,
    KeysFormat,
    RestorePartition,
    RestoreSidecars,
    RestoreTombstones,
    TimestampFrom,
)
from headrace.options.declarations.option import Group, option, optional
from headrace.options.value_types import BEGINNINGS, BOOLEAN, CHARACTERS, TEXT, TOPIC_MAP, choice, integer

LAYOUT = option(
    "input.layout",
    choice(InputLayout),
    "none",
    Group.RESTORE,
    "Whose archive the objects are: names give topic, partition and order, rows become the records that were "
    "in Kafka. `auto`: by the form of each key, and by content where two layouts would write it. `none`: no "
    "archive; `file.name.template` reads the keys.",
    importance="HIGH",
)
INDEXES = option(
    "layout.indexes",
    BEGINNINGS,
    ".indexes/,.temp-upload/",
    Group.RESTORE,
    "Beginnings of keys that are never data: where a sink keeps its own state. Keys with a folder "
    "`.indexes/` or `.temp-upload/` anywhere in them are left out in any case, by every source.",
    importance="LOW",
)
TOPIC_MAP_OPTION = option(
    "restore.topic.map",
    TOPIC_MAP,
    "",
    Group.RESTORE,
    "Pairs `from:to`: records of the archive's topic `from` go to `to`. Needed where a sink altered names "
    "(Quix). `topic` wins over it.",
)
PARTITION = option(
    "restore.partition",
    choice(RestorePartition),
    "original",
    Group.RESTORE,
    "`original`: the partition that the key names; an object of one that the topic does not have is "
    "quarantined. `modulo`: that number modulo the topic's partitions. `partitioner`: by the restored key.",
)
VALUE = option(
    "restore.value",
    choice(Form),
    "auto",
    Group.RESTORE,
    "What a stored value becomes. `json`: its JSON, unchanged. `string`: a text without its quotes. "
    "`base64`: the bytes after it. `auto`: by the layout's own marks, else csv fields base64, JSON strings "
    "text, other JSON its text, bytes of Avro and Parquet bytes. Rows of Headrace's envelope say themselves "
    "what is base64; of these options only `restore.value=string` is for them.",
)
KEY = option(
    "restore.key", choice(Form), "auto", Group.RESTORE, "What a stored key becomes; as `restore.value`."
)
HEADER = option(
    "restore.header",
    choice(Form),
    "auto",
    Group.RESTORE,
    "What a stored header's value becomes; as `restore.value`.",
)
TIMESTAMP = option(
    "restore.timestamp",
    choice(TimestampFrom),
    "original",
    Group.RESTORE,
    "`original`: the record's own where the layout stores it, else the time of producing. `produce`: the "
    "time of producing. `object`: as of `record.timestamp`.",
)
SIDECARS = option(
    "restore.sidecars",
    choice(RestoreSidecars),
    "auto",
    Group.RESTORE,
    "Objects of keys and headers, of Confluent's and of Headrace's own sink, joined row by row. `auto`: an "
    "object waits for those that its topic is known to have, and continues without what does not come. "
    "`required`: without them it is quarantined (`side_object_missing`). `ignore`: records have neither key "
    "nor headers but those that are in their rows.",
)
SIDECARS_WAIT = option(
    "restore.sidecars.wait.ms",
    integer(0, 86_400_000, unit="milliseconds"),
    "60000",
    Group.RESTORE,
    "How long an object waits for its objects of keys and headers, which the sink writes after it.",
)
KEYS_FORMAT = option(
    "restore.keys.format",
    choice(KeysFormat),
    "auto",
    Group.RESTORE,
    "What objects of keys hold. `auto`: what their names end with. Needed where the sink wrote keys as bytes "
    "and was told an ending of another format for them, such as `format.bytearray.extension=.json`.",
    importance="LOW",
)
TOMBSTONES = option(
    "restore.tombstones",
    choice(RestoreTombstones),
    "proven",
    Group.RESTORE,
    "Confluent's objects of tombstones. `proven`: merged between values where names, tags and numbers of "
    "rows prove their place, else quarantined (`tombstone_order_unknown`). `after`: after all values of "
    "their partition, which deletes keys that were written again. `ignore`: left out.",
)
ENVELOPED = option(
    "restore.envelope",
    choice(Enveloped),
    "auto",
    Group.RESTORE,
    "Whether rows of Aiven, Lenses and Headrace carry key and more next to the value. `auto`: by the members "
    "of the object's first row that is JSON (10,000 rows, and 64 MiB or more, are looked at); say "
    "`no` where a value may look like an envelope. A row of Lenses or "
    "Headrace with members of an envelope but none that tells (Lenses: metadata of topic, partition "
    "and offset, marks of bytes; Headrace: topic, partition and offset together, `key_base64`, "
    "`value_base64` or `timestamp_type`, in Avro the name `headrace.Record`) is not guessed: the object is "
    "quarantined (`envelope_undecided`).",
    importance="LOW",
)
STORE_ENVELOPE = optional(
    "store.envelope",
    BOOLEAN,
    Group.RESTORE,
    "Whether rows of Lenses are envelopes, as the sink's own option of this name in its KCQL: `true` is "
    "`restore.envelope=yes`, `false` is `no`; with `input.layout=auto`, too, of these rows alone. Needed "
    "where the sink left metadata out: an envelope of key and value alone looks like a value.",
    default_says="`restore.envelope` decides",
)
FORMAT_ENVELOPE = optional(
    "format.output.envelope",
    BOOLEAN,
    Group.RESTORE,
    "Whether rows of Aiven are envelopes, as the sink's own option of this name: `true` is "
    "`restore.envelope=yes`, `false` is `no`; with `input.layout=auto`, too, of these rows alone. Needed "
    "where values have no other members than an envelope's (key, value, offset, timestamp, headers), and "
    "look like one.",
    default_says="`restore.envelope` decides",
)
CSV_FIELDS = option(
    "format.output.fields",
    TEXT,
    "value",
    Group.RESTORE,
    "The columns of Aiven's csv, in the order of the sink's own option of this name: key, value, offset, "
    "timestamp, headers. In Avro and Parquet, with more than `value` in it, it says that rows are envelopes "
    "whatever the name of their schema.",
)
CSV_ENCODING = option(
    "format.output.fields.value.encoding",
    choice(CsvEncoding),
    "base64",
    Group.RESTORE,
    "How Aiven's csv holds values, as the sink's own option of this name. With `none` objects are csv, and "
    "values may be JSON; where rows may be envelopes of `jsonl` too, objects are quarantined "
    "(`format_undecided`) until `input.format` tells.",
    importance="LOW",
)
FILE_DELIMITER = option(
    "file.delim",
    TEXT,
    "+",
    Group.RESTORE,
    "What separates topic, partition and offset in the names of Confluent's sink.",
    importance="LOW",
)
DIRECTORY_DELIMITER = option(
    "directory.delim",
    TEXT,
    "/",
    Group.RESTORE,
    "What separates the directories of keys of Confluent's sink, as its own option of this name.",
    importance="LOW",
)
TOMBSTONE_DIRECTORY = option(
    "tombstone.encoded.partition",
    TEXT,
    "tombstone",
    Group.RESTORE,
    "The directory in which Confluent's sink puts tombstones, as its own option of this name.",
    importance="LOW",
)
SEPARATOR = optional(
    "format.bytearray.separator",
    CHARACTERS,
    Group.RESTORE,
    "What Confluent's ByteArrayFormat put after each value.",
    default_says="a line feed",
    importance="LOW",
)
