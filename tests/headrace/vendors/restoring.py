"""Whole archives restored, each with the options that its configuration asks for, and compared with Kafka."""

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from headrace.formats.content_kind import RowFormat
from headrace.formats.record_columns import RecordColumns
from headrace.names.archive_names import ArchiveName, NameElement, ObjectKind
from headrace.options.choices import CsvEncoding, Enveloped, Form, RestoreOptions
from headrace.vendors.confluent.join import RowsDiffer, joined
from headrace.vendors.confluent.names import TombstoneObject, ValueObject, places
from tests.headrace.vendors.archive import Archive, Record
from tests.headrace.vendors.decoding import Restored, read, records
from tests.headrace.vendors.test_archive_names import name_of

_FORMS: Final = {
    "JsonConverter": Form.JSON,
    "StringConverter": Form.STRING,
    "SimpleHeaderConverter": Form.STRING,
    "ByteArrayConverter": Form.BASE64,
}
_QUIX_FORMS: Final = {"json": Form.JSON, "string": Form.STRING}
KCQL_COLUMNS: Final = ("id", "name", "region", "amount")

_DECIMAL: Final = re.compile(r"-?[0-9]+\.[0-9]{2}")
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")

Partition = tuple[str, int]


def options_of(archive: Archive) -> RestoreOptions:
    """What an operator who knows the sink's configuration writes into that of the restore."""
    config = archive.config
    if archive.vendor == "quix":
        return RestoreOptions(value=_QUIX_FORMS[config["value_deserializer"]])
    fields = tuple(config.get("format.output.fields", "value").split(","))
    forms = {
        part: _FORMS[config.get(f"{part}.converter", "x.SimpleHeaderConverter").rpartition(".")[2]]
        for part in ("key", "value", "header")
    }
    if archive.vendor == "aiven" and config.get("format.output.type", "csv") == "csv":
        none = config.get("format.output.fields.value.encoding") == "none"
        return RestoreOptions(
            csv_fields=fields, csv_encoding=CsvEncoding.NONE if none else CsvEncoding.BASE64
        )
    if "envelope" in config.get("connect.s3.kcql", ""):
        # The envelope marks keys and values that are bytes, and not header values.
        marked = {part: Form.AUTO if forms[part] is Form.BASE64 else forms[part] for part in ("key", "value")}
        forms.update(marked)
    elif archive.vendor == "lenses" or "ByteArrayFormat" in config.get("format.class", ""):
        forms["value"] = Form.AUTO if forms["value"] is Form.BASE64 else forms["value"]
    bare = config.get("format.output.envelope") == "false"
    return RestoreOptions(
        value=forms["value"],
        key=forms["key"],
        header=forms["header"],
        envelope=Enveloped.NO if bare else Enveloped.AUTO,
    )


def wanted_format(archive: Archive) -> RowFormat | None:
    """`input.format`, which an archive of Aiven's bare values has to be told."""
    wanted = archive.config.get("format.output.type", "csv")
    if archive.vendor != "aiven":
        return None
    return RowFormat.LINES if wanted == "csv" else RowFormat(wanted)


def enveloped(archive: Archive) -> bool:
    """True when the sink was told to write more than values into an object."""
    config = archive.config
    if archive.vendor == "aiven":
        return str(config.get("format.output.envelope")) != "false"
    return archive.vendor == "quix" or "envelope" in str(config.get("connect.s3.kcql", ""))


@dataclass(frozen=True, slots=True)
class _Object:
    """One object with its side objects joined; `refused` where their rows do not go together."""

    name: ArchiveName
    columns: tuple[RecordColumns, ...]
    refused: bool = False

    @property
    def records(self) -> list[Restored]:
        return [each for columns in self.columns for each in records(columns)]


def _objects(archive: Archive) -> dict[Partition, list[_Object]]:
    """The objects of each partition in the layout's order."""
    names = {key: found for key in archive.objects if (found := name_of(archive, key)) is not None}
    stems: dict[str, dict[ObjectKind, ArchiveName]] = defaultdict(dict)
    for name in names.values():
        stems[name.stem][name.kind] = name
    result: dict[Partition, list[_Object]] = defaultdict(list)
    for kinds in stems.values():
        whole = _object(archive, kinds)
        topic = whole.name.topic or archive.records[0].topic
        result[topic, whole.name.partition or 0].append(whole)
    for objects in result.values():
        objects.sort(key=lambda each: each.name.order)
    return result


def _object(archive: Archive, kinds: dict[ObjectKind, ArchiveName]) -> _Object:
    parts = {kind: [read_object(archive, name.key)] for kind, name in kinds.items()}
    headers = parts.get(ObjectKind.HEADERS)
    try:
        if ObjectKind.VALUES not in parts:
            return _Object(kinds[ObjectKind.KEYS], tuple(joined(parts[ObjectKind.KEYS], None, headers)))
        rows = tuple(joined(parts[ObjectKind.VALUES], parts.get(ObjectKind.KEYS), headers))
        return _Object(kinds[ObjectKind.VALUES], rows)
    except RowsDiffer:
        return _Object(kinds[ObjectKind.VALUES], (), refused=True)


def _in_order(archive: Archive, objects: list[_Object]) -> tuple[list[Restored], int]:
    """The records of a partition in the order in which they are restored, and how many are held back."""
    values = [each for each in objects if not each.name.tombstones]
    deletions = {each.name.start_offset or 0: each.records for each in objects if each.name.tombstones}
    placed = places(
        [_value_object(archive, each) for each in values],
        [TombstoneObject(start=start, rows=len(rows)) for start, rows in deletions.items()],
    )
    before: dict[tuple[int | None, int], list[Restored]] = defaultdict(list)
    for start, where in placed.items():
        for place, each in zip(where, deletions.pop(start), strict=True):
            before[place.start, place.row].append(each)
    result = []
    for value_object in values:
        for row, record in enumerate(value_object.records):
            result += [*before[value_object.name.start_offset, row], record]
    return result + before[None, 0], sum(map(len, deletions.values()))


def _value_object(archive: Archive, each: _Object) -> ValueObject:
    end = archive.tags.get(each.name.key, {}).get("endOffset")
    return ValueObject(
        start=each.name.start_offset or 0,
        rows=len(each.records),
        end=None if end is None else int(end),
        path=each.name.key.rpartition("/")[0],
    )


def read_object(archive: Archive, key: str, stored: bytes | None = None) -> RecordColumns:
    """The records of one object, or of other bytes in its place."""
    name = name_of(archive, key)
    assert name is not None
    return read(
        name,
        archive.objects[key] if stored is None else stored,
        options_of(archive),
        wanted=wanted_format(archive),
        separator=archive.config.get("format.bytearray.separator", "\n").encode(),
        columns=KCQL_COLUMNS,
    )


def differences(archive: Archive) -> set[str]:
    """In which ways what came back differs from what was in Kafka, with numbers of records and rows."""
    found: set[str] = set()
    counts: Counter[str] = Counter()
    unused = list(archive.records)
    for (topic, partition), objects in _objects(archive).items():
        own = [each for each in unused if _is_of(archive, each, topic, partition, objects[0].name)]
        found |= _of_objects(objects, counts)
        rows, held_back = _in_order(archive, objects)
        counts["tombstones held back"] += held_back
        offsets = [-1]
        for each in rows:
            record = _counterpart(archive, each, own)
            if record is None:
                counts["rows that are no records"] += 1
                continue
            own.remove(record)
            unused.remove(record)
            found |= set(_compared(archive, record, each))
            offsets.append(record.offset)
        if offsets != sorted(offsets):
            found.add("order")
    counts["records missing"] = len(unused)
    return found | {f"{count} {what}" for what, count in counts.items() if count}


def differences_in_kafka(archive: Archive, restored: dict[Partition, list[Restored]]) -> set[str]:
    """The same for what a consumer got, by the archive's topic and the partition of the new one."""
    found: set[str] = set()
    unused = list(archive.records)
    strange = 0
    names = [name for key in archive.objects if (name := name_of(archive, key)) is not None]
    is_certain = all(name.partition is not None and name.is_exact(NameElement.PARTITION) for name in names)
    for (topic, partition), rows in restored.items():
        offsets = [-1]
        for each in rows:
            own = [
                record
                for record in unused
                if (record.topic == topic or archive.vendor == "quix")
                and (record.partition == partition or not is_certain)
            ]
            record = _counterpart(archive, each, own)
            if record is None:
                strange += 1
                continue
            unused.remove(record)
            found |= set(_compared(archive, record, each))
            offsets.append(record.offset)
        if offsets != sorted(offsets):
            found.add("order")
    counts = {"rows that are no records": strange, "records missing": len(unused)}
    return found | {f"{count} {what}" for what, count in counts.items() if count}


def _of_objects(objects: list[_Object], counts: Counter[str]) -> set[str]:
    counts["objects refused"] += sum(each.refused for each in objects)
    found = {"order may differ" for each in objects if not each.name.is_exact(NameElement.ORDER)}
    for columns in (columns for each in objects for columns in each.columns):
        counts["rows refused"] += len(columns.faults)
        counts.update(columns.inexact)
    return found


def _is_of(archive: Archive, record: Record, topic: str, partition: int, name: ArchiveName) -> bool:
    if name.partition is None or not name.is_exact(NameElement.PARTITION) or archive.name.endswith("right"):
        return True
    same = record.topic == topic or archive.vendor == "quix"
    return same and record.partition == partition


def _counterpart(archive: Archive, each: Restored, own: list[Record]) -> Record | None:
    """The record by its offset where that came back, else the first whose value and other parts are these."""
    if each.offset is not None and each.offset >= 0:
        same = [record for record in own if record.offset == each.offset]
        return next((record for record in same if _agrees(archive, record, each)), None)
    return next((record for record in own if _agrees(archive, record, each)), None)


def _agrees(archive: Archive, record: Record, each: Restored) -> bool:
    """True when every part that came back can be of this record."""
    return all(
        difference is not None
        for difference in (
            _key(record, each),
            _value(archive, record.value, each.value),
            _timestamp(record, each),
        )
    )


def _compared(archive: Archive, record: Record, each: Restored) -> Iterator[str]:
    yield from filter(
        None,
        (
            _key(record, each),
            _value(archive, record.value, each.value),
            _timestamp(record, each),
            _headers(record, each),
        ),
    )
    if each.offset is None or each.offset < 0:
        yield "offset"


def _key(record: Record, each: Restored) -> str | None:
    """How the keys differ: "" not at all, None so that it is another record's."""
    if each.key == record.key:
        return ""
    if each.key is None:
        return "null for an empty key" if record.key == b"" and each.has_key else "key"
    return None


def _timestamp(record: Record, each: Restored) -> str | None:
    if each.timestamp == record.timestamp:
        return ""
    return "timestamp" if each.timestamp in {None, -1} else None


def _headers(record: Record, each: Restored) -> str:
    if each.headers == record.headers:
        return ""
    if not each.headers:
        return "headers"
    if sorted(dict(record.headers).items(), key=repr) == sorted(each.headers, key=repr):
        return "duplicate headers" if len(record.headers) > len(each.headers) else "order of headers"
    return "header values"


def _value(archive: Archive, stored: bytes | None, restored: bytes | None) -> str | None:
    if stored == restored:
        return ""
    if restored is None and stored in {b"", b"null"}:
        is_json = "Json" in archive.config.get("value.converter", "") or archive.vendor == "quix"
        return "null for an empty value" if not stored else "null for the JSON null" if is_json else None
    if restored is None or stored is None:
        return None
    got = _loads(restored)
    if archive.config.get("value.converter.schemas.enable") == "true":
        expected = _payload(json.loads(stored))
        return "schema" if _plain(expected) == _plain(got) else _members(expected, got)
    expected = _loads(stored)
    if expected is None:
        return "newlines" if stored.replace(b"\n", b"\\n") == restored else None
    return "JSON written anew" if expected == got else _members(expected, got)


def _members(expected: Any, got: Any) -> str | None:
    if not isinstance(expected, dict) or not isinstance(got, dict):
        return None
    filled = {name: value for name, value in got.items() if value is not None}
    wanted = {name: value for name, value in expected.items() if value is not None}
    if _plain(filled) == _plain(wanted):
        return "members that are null"
    as_text = {name: value if isinstance(value, str) else str(value) for name, value in wanted.items()}
    if {name: value for name, value in filled.items() if value != ""} == {
        name: value for name, value in as_text.items() if value != ""
    }:
        return "types"
    without = {name: value for name, value in wanted.items() if name not in {"_key", "_timestamp"}}
    return "members of the sink's own names" if _plain(filled) == _plain(without) else None


def _loads(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return datetime.fromisoformat(value).timestamp() * 1000
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _payload(text: Any) -> Any:
    """The payload of JSON with a schema, decimals as text."""
    return _typed(text["schema"], text["payload"])


def _typed(schema: Any, value: Any) -> Any:
    if value is None:
        return None
    if schema["type"] == "struct":
        return {field["field"]: _typed(field, value.get(field["field"])) for field in schema["fields"]}
    if schema.get("name") == "org.apache.kafka.connect.data.Decimal":
        scale = int(schema["parameters"]["scale"])
        number = int.from_bytes(base64.b64decode(value), "big", signed=True)
        return str(Decimal(number).scaleb(-scale))
    return value
