"""Where a round trip, our sink and then our restore, gives back other things than theirs does: as data.

`gone` is lost in their archives and not in ours, `new` the other way about; each has its reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Change:
    """What is not excused any more, and what is in its place."""

    why: str
    gone: frozenset[str]
    new: frozenset[str] = frozenset()


def _change(why: str, gone: set[str], new: set[str] | None = None) -> Change:
    return Change(why, frozenset(gone), frozenset(new or ()))


_IN_ORDER: Final = _change(
    "members of JSON stand as in Kafka, theirs in the order of a hash table or written anew",
    {"JSON written anew"},
)
_HEADERS_IN_ORDER: Final = _change(
    "headers stand in the order of the record, theirs in that of a hash table", {"order of headers"}
)
_KEYS: Final = _change(
    "a key is its text, where theirs is a dump of an object",
    {"JSON written anew", "key", "null for an empty key"},
)
_PART_TAKEN: Final = (
    "a value that has columns of the record's own stops its partition here: the row would hide the key"
)
_STOPPED_LATER: Final = "every other partition goes on to its end"


def _partitions_go_on(theirs: int, ours: int) -> Change:
    return _change(_STOPPED_LATER, {f"{theirs} records missing"}, {f"{ours} records missing"})


CHANGES: Final[Mapping[str, Change]] = {
    "aiven-FAIL_avro_headers_mixed": _change(
        "headers are a map in every object, so that records with and without them stand in one",
        {"3 records missing", "duplicate headers"},
    ),
    "aiven-FAIL_avro_tombstone": _partitions_go_on(10, 9),
    "aiven-FAIL_csv_all_null_header": _partitions_go_on(23, 11),
    "aiven-FAIL_csv_all_simple_headers": _partitions_go_on(25, 23),
    "aiven-aborted_tx": _change(
        "records of aborted transactions are not archived", {"4 rows that are no records"}
    ),
    "aiven-json_array": _IN_ORDER,
    "aiven-json_array_no_envelope": _IN_ORDER,
    "aiven-jsonl_all": _IN_ORDER,
    "aiven-jsonl_no_envelope": _IN_ORDER,
    "aiven-jsonl_snappy": _IN_ORDER,
    "aiven-prefix_vars": _IN_ORDER,
    "confluent-FAIL_field_schemaless": _change(
        "fields of JSON without a schema name objects, where theirs fails at the first record",
        {"18 records missing"},
        {"JSON written anew", "headers", "key", "offset", "timestamp"},
    ),
    "confluent-FAIL_keys_only_raw_avro": _change(
        "records without a key are left out, where theirs fails at the first",
        {"26 records missing"},
        {"3 records missing", "headers", "offset", "timestamp"},
    ),
    "lenses-FAIL_bytes_null": _partitions_go_on(23, 14),
    "lenses-FAIL_envelope_avro_bytes_hyphen": _partitions_go_on(23, 13),
    "lenses-FAIL_envelope_avro_hyphen": _partitions_go_on(12, 4),
    "lenses-FAIL_json_null": _change(
        _STOPPED_LATER,
        {"13 records missing"},
        {"11 records missing", "headers", "key", "offset", "timestamp"},
    ),
    "lenses-FAIL_partitionby_null_key": _change(
        _STOPPED_LATER,
        {"14 records missing"},
        {"4 records missing", "headers", "key", "offset", "order", "schema", "timestamp"},
    ),
    "lenses-envelope_json": _HEADERS_IN_ORDER,
    "lenses-envelope_json_bytes": _HEADERS_IN_ORDER,
    "lenses-json_string": _change("a line feed in a text is JSON's, and is read again", {"newlines"}),
    "lenses-multi_topic": _HEADERS_IN_ORDER,
    "quix-FAIL_new_parquet": _IN_ORDER,
    "quix-FAIL_old_parquet": _IN_ORDER,
    "quix-new_jsonl": _IN_ORDER,
    "quix-new_jsonl_str_keys": _KEYS,
    "quix-new_parquet_flat": _change(_PART_TAKEN, {"key", "timestamp"}, {"1 records missing"}),
    "quix-new_parquet_gzip_str": _change(
        _PART_TAKEN,
        {"JSON written anew", "key", "null for an empty key", "timestamp"},
        {"1 records missing"},
    ),
    "quix-old_jsonl": _IN_ORDER,
    "quix-old_jsonl_any_tombstones": _IN_ORDER,
    "quix-old_jsonl_gz": _IN_ORDER,
    "quix-old_jsonl_str_keys": _KEYS,
    "quix-old_parquet_gzip_str": _change(
        _PART_TAKEN,
        {"JSON written anew", "key", "null for an empty key", "timestamp"},
        {"1 records missing"},
    ),
}

REFUSED: Final = {
    "aiven-FAIL_csv_text_none_encoding": "value.converter has to be ByteArrayConverter with Aiven's csv",
    "aiven-FAIL_text_csv_base64": "value.converter has to be ByteArrayConverter with Aiven's csv",
}
"""What our sink refuses to begin with, so that nothing is in the bucket."""

UNWRITTEN: Final[Mapping[str, int]] = {
    # Its objects close when a record of a later hour comes, the last ones never.
    "confluent-time_rotate_interval": 4,
    # Their partition stands at it.
    "quix-new_parquet_flat": 1,
    "quix-new_parquet_gzip_str": 1,
    "quix-old_parquet_gzip_str": 1,
}
"""How many records at the ends of partitions are in no object, however long one waits."""

OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    # Line feeds in texts would end rows.
    "lenses-text": {"output__newlines": "escaped"}
}
"""What an archive needs of our own options for its rows to be records."""
