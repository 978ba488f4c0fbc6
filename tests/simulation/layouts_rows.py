"""What is in objects of other vendors' layouts, read by other libraries than those that wrote it."""

import base64
import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import cramjam

from tests.simulation.archive_rows import plain, rows_of_form
from tests.simulation.layouts_records import number_in, number_in_key, numbers_in_text

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_AIVEN_FIELDS: Final = "key,value,offset,timestamp,headers"
UNTOLD: Final = object()
"""A part that the row does not have, or whose form says less than it was."""


class Name(NamedTuple):
    """What a key says, by expressions of this module."""

    topic: str
    partition: int
    offset: int
    is_last: bool
    """Whether the offset is that of the object's last record."""
    times: tuple[int, int] | None
    side: str

    def may_have(self, offset: int) -> bool:
        """Whether a record of this offset may be in the object."""
        return offset <= self.offset if self.is_last else offset >= self.offset


class Look(NamedTuple):
    """A row: the number of its record, if it shows one, and its parts."""

    number: int | None
    value: Any
    key: Any = UNTOLD
    offset: Any = UNTOLD
    timestamp_ms: Any = UNTOLD

    @property
    def is_anonymous(self) -> bool:
        """Whether it is of a record without a value, and shows nothing else."""
        return self.number is None and self.value is None


_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "aiven": (r"(?P<topic>[a-z-]*events-[0-9])-(?P<partition>[0-9]+)-(?P<offset>[0-9]+)",),
    "confluent": (
        r"(?P<topic>[a-z-]*events-[0-9])\+(?P<partition>[0-9]+)\+(?P<offset>[0-9]+)(?:\.(?P<side>keys|headers))?",
    ),
    "lenses": (
        r"(?P<topic>[a-z-]*events-[0-9])\((?P<partition>[0-9]+)_(?P<last>[0-9]+)\)",
        r"(?P<topic>[a-z-]*events-[0-9])/(?P<partition>[0-9]+)/(?P<last>[0-9]+)_(?P<first>-?[0-9]+)_(?P<end>-?[0-9]+)",
    ),
    "quix": (r"(?P<topic>[a-z_]*events_[0-9])/(?P<partition>[0-9]+)/(?P<offset>[0-9]{19})",),
}
_EXTENSION: Final = r"(?:\.[A-Za-z0-9]+)*"


def name_of(layout: str, key: str) -> Name | None:
    """What a key says; None where it is none of the layout."""
    for pattern in _NAMES[layout]:
        found = re.search(rf"(?:^|/){pattern}{_EXTENSION}$", key)
        if found is None:
            continue
        parts = found.groupdict()
        times = (int(parts["first"]), int(parts["end"])) if "first" in parts else None
        return Name(
            parts["topic"].replace("_", "-"),
            int(parts["partition"]),
            int(parts["offset"] if "offset" in parts else parts["last"]),
            "last" in parts,
            times,
            parts.get("side") or "",
        )
    return None


def looks(body: bytes, options: Mapping[str, str]) -> list[Look]:
    """The rows of an object of values."""
    data, layout = plain(_without_xerial(body)), options["output.layout"]
    form = "jsonl" if layout == "quix" and options["output.format"] == "json" else options["output.format"]
    if form in ("text", "bytes"):
        return [Look(number, UNTOLD) for number in numbers_in_text(data)]
    if form == "csv":
        rows = _aiven_csv(data, options) if layout == "aiven" else _lenses_csv(data, options)
        return list(rows)
    return [_look(row, options) for row in rows_of_form(form, data)]


def side_rows(name: Name, body: bytes, form: str, separator: str) -> list[Any]:
    """The keys, or the headers, of an object next to values."""
    data = plain(body)
    if form == "bytes":
        return data.removesuffix(separator.encode()).split(separator.encode())
    rows = rows_of_form(form, data)
    member = name.side.removesuffix("s") if name.side == "keys" else "headers"
    if form == "parquet" or (form == "jsonl" and name.side == "headers"):
        return [row[member] if isinstance(row, Mapping) and member in row else row for row in rows]
    return rows


def _without_xerial(body: bytes) -> bytes:
    if not body.startswith(_XERIAL):
        return body
    at, parts = _XERIAL_HEADER, []
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        parts.append(bytes(cramjam.snappy.decompress_raw(body[at + 4 : at + 4 + size])))
        at += 4 + size
    return b"".join(parts)


def _look(row: Any, options: Mapping[str, str]) -> Look:
    layout = options["output.layout"]
    if layout == "quix":
        members = dict(row)
        key, _ = members.pop("_key"), members.pop("_timestamp")
        # A null has no members in Parquet, or has nulls for them.
        flat = members if any(one is not None for one in members.values()) else None
        return _told(members.get("_value", flat), key)
    is_bare = options.get("output.envelope") == "false"
    if layout == "confluent" or is_bare:
        if layout == "aiven" and is_bare and options["output.format"] in ("avro", "parquet"):
            # A record is the row itself; what is none is its one field.
            row = row["value"] if isinstance(row, Mapping) and list(row) == ["value"] else row
        return _told(row, UNTOLD)
    if layout == "lenses":
        where = row.get("metadata", {})
        found = _told(row.get("value"), row.get("key", UNTOLD), where.get("offset", UNTOLD))
        return found._replace(timestamp_ms=where.get("timestamp", UNTOLD))
    return _told(row.get("value"), row.get("key", UNTOLD), row.get("offset", UNTOLD))


def _told(value: Any, key: Any, offset: Any = UNTOLD) -> Look:
    number = number_in(value) if value is not None else number_in_key(key) if key is not UNTOLD else None
    return Look(number, value, key, offset)


def _aiven_csv(data: bytes, options: Mapping[str, str]) -> Iterator[Look]:
    fields = options.get("output.fields", _AIVEN_FIELDS).split(",")
    if options.get("output.envelope") == "false":
        fields = options.get("output.fields", "value").split(",")
    for line in data.split(b"\n"):
        cells = line.split(b",")
        at = fields.index("value")
        behind = len(fields) - 1 - at
        value = b",".join(cells[at : len(cells) - behind])
        row = dict(zip(fields[:at], cells[:at], strict=True)) | {"value": value}
        row |= dict(zip(fields[at + 1 :], cells[len(cells) - behind :], strict=True))
        raw = value if options.get("output.value.encoding") == "none" else base64.b64decode(value)
        key = base64.b64decode(row["key"]) if "key" in row else UNTOLD
        offset = int(row["offset"]) if "offset" in row else UNTOLD
        yield _told(raw or None, key, offset)


def _lenses_csv(data: bytes, options: Mapping[str, str]) -> Iterator[Look]:
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    if options.get("csv.header") == "false":
        # The first column that is a number is the record's: what else there is, is none.
        for row in rows:
            yield Look(next((int(cell) for cell in row if cell.isdigit()), None), UNTOLD)
        return
    head, *rest = rows or [[]]
    for row in rest:
        yield Look(int(dict(zip(head, row, strict=True))["n"]), UNTOLD)
