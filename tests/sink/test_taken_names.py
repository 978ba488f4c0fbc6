"""Objects of another sink under the names that ours are to have, as a crash of that sink leaves them.

Theirs are packed by other libraries. The same records are not written twice: their object is ours, as it is.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.headrace.vendors.archive import NAMES, Archive, Record, archive
from tests.sink.archive_comparison import Sameness, sameness
from tests.sink.rewritten_archives import rewritten_over

_SETTLED: Final = [
    name
    for name in NAMES
    if "FAIL" not in name
    and not name.startswith("quix-")
    # Names that recur are written over, and rows of aborted transactions are none of ours.
    and name not in {"aiven-key_only", "aiven-key_topic_partition", "aiven-aborted_tx"}
]
_HASH_ORDER: Final = "members of JSON stand in the order of a Java hash table there, in that of Kafka here"
_NEWLINES: Final = "line feeds in texts are lost there, and kept here"
_HEADERS: Final = "headers stand in the order of a hash table there, in that of the record here"
SET_ASIDE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "aiven-json_array",
            "aiven-json_array_no_envelope",
            "aiven-jsonl_all",
            "aiven-jsonl_no_envelope",
            "aiven-jsonl_snappy",
            "aiven-prefix_vars",
            "confluent-delims_no_topics_dir",
            "confluent-hourly_wallclock",
            "confluent-json_any_ignore",
            "confluent-json_default",
            "confluent-time_record",
            "lenses-at_least_once",
            "lenses-envelope_json",
            "lenses-envelope_json_any",
            "lenses-envelope_json_struct_del",
            "lenses-include_keys_default",
            "lenses-indexes_name",
            "lenses-json_any_skip_null",
            "lenses-json_default",
            "lenses-json_gzip",
            "lenses-json_no_storeas_no_prefix",
            "lenses-multi_topic",
            "lenses-padding_noop",
            "lenses-padding_right",
            "lenses-partitionby_envelope",
        ),
        _HASH_ORDER,
    ),
    "lenses-envelope_json_bytes": _HEADERS,
    "lenses-json_string": _NEWLINES,
    "lenses-text": _NEWLINES,
}
"""Where some objects say the same in another order, or other things: those are left to a person."""


@pytest.mark.parametrize("name", _SETTLED)
def test_objects_of_the_same_records_are_ours_already(name: str) -> None:
    """Whatever packs them; none is replaced, and what differs in content is set aside."""
    source = archive(name)
    found = rewritten_over(source, source.objects)

    assert bool(found.set_aside) == (name in SET_ASIDE)
    assert {key: found.objects[key].body for key in source.objects} == source.objects
    if SET_ASIDE.get(name) != _NEWLINES:
        ours = rewritten_over(source, {}).objects
        for key in found.set_aside:
            assert sameness(ours[key].body, source.objects[key]) is Sameness.JSON


@pytest.mark.parametrize(
    "name",
    [
        "aiven-published_config",
        "aiven-avro_null_in_gzip",
        "aiven-parquet_no_envelope",
        "confluent-avro_snappy",
        "confluent-parquet_snappy",
        "confluent-kvh_json_gz_time",
        "lenses-envelope_avro",
        "lenses-envelope_parquet_bytes",
    ],
)
def test_another_record_is_another_object(name: str) -> None:
    """One value is another: its object is set aside, and no other is."""
    source = archive(name)
    changed = _changed(source)
    set_aside = {
        each: rewritten_over(replace(source, records=records), source.objects).set_aside
        for each, records in changed.items()
    }

    assert set_aside
    assert {len(keys) for keys in set_aside.values()} == {1}


def _changed(source: Archive) -> dict[int, tuple[Record, ...]]:
    """The records with one of them changed, for some of them."""
    result: dict[int, tuple[Record, ...]] = {}
    for place, record in enumerate(source.records):
        value = _other(record.value)
        if value is not None and len(result) < 3:
            records = list(source.records)
            records[place] = replace(record, value=value)
            result[place] = tuple(records)
    return result


def _other(value: bytes | None) -> bytes | None:
    """A value of the same form with another text in it; None where there is no text."""
    try:
        found: Any = json.loads(value or b"")
    except ValueError:
        return b"other" if value else None
    payload = found.get("payload", found) if isinstance(found, dict) else None
    if not isinstance(payload, dict) or not isinstance(payload.get("name"), str):
        return None
    payload["name"] += "!"
    return json.dumps(found, separators=(",", ":")).encode()


def test_all_that_is_set_aside_is_of_an_archive() -> None:
    """None is of an archive that is there no more."""
    assert set(SET_ASIDE) <= set(_SETTLED)
