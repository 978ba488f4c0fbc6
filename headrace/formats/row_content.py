"""What an object of an archive holds: by its name, else by the first bytes of its decompressed content."""

import base64
import binascii
from enum import StrEnum
from typing import Final

import msgspec

from headrace.names.archive_names import ArchiveName, LayoutName, ObjectKind

_AVRO: Final = b"Obj\x01"
_PARQUET: Final = b"PAR1"
# How Aiven's json begins; a value that begins so is not written by jsonl or csv.
_ARRAY: Final = b"[\n"

_ANYTHING: Final = msgspec.json.Decoder(msgspec.Raw)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RowFormat(StrEnum):
    """How the rows of an object are cut out.

    `json` is one array, `lines` are all lines (the empty ones too), `csv` rows with quotes and columns,
    `whole` is one row, `separated` rows that each end with a separator.
    """

    AVRO = "avro"
    PARQUET = "parquet"
    JSON = "json"
    JSONL = "jsonl"
    LINES = "lines"
    CSV = "csv"
    TEXT = "text"
    WHOLE = "whole"
    SEPARATED = "separated"


_BY_EXTENSION: Final = {
    ".avro": RowFormat.AVRO,
    ".parquet": RowFormat.PARQUET,
    ".json": RowFormat.JSONL,
    ".jsonl": RowFormat.JSONL,
    ".csv": RowFormat.CSV,
    ".text": RowFormat.TEXT,
    ".bytes": RowFormat.WHOLE,
}


def row_format(name: ArchiveName, head: bytes) -> RowFormat | None:
    """The format of the object with this name whose decompressed content begins with `head`.

    `head` should hold the first row; less is taken as it is. What the content shows goes before the name.
    None where both jsonl and csv would begin so: `input.format` has to say which.
    """
    if head.startswith(_AVRO):
        return RowFormat.AVRO
    if head.startswith(_PARQUET):
        return RowFormat.PARQUET
    if name.layout is LayoutName.AIVEN:
        return _aiven(head)
    extensions = [f".{part}" for part in name.extension.split(".") if part]
    known = [_BY_EXTENSION[part] for part in extensions if part in _BY_EXTENSION]
    if known:
        return RowFormat.JSON if known == [RowFormat.JSONL] and head.startswith(_ARRAY) else known[-1]
    if name.layout is LayoutName.CONFLUENT and name.kind is ObjectKind.VALUES:
        return RowFormat.SEPARATED  # ByteArray writes any extension
    return RowFormat.JSONL  # Lenses' .gz, and extensions that Quix was given


def _aiven(head: bytes) -> RowFormat | None:
    """Names of this sink say nothing of the format; csv is what is no JSON."""
    if head.startswith(_ARRAY):
        return RowFormat.JSON
    first = first_row(head)
    if not first:
        return RowFormat.LINES
    try:
        _ANYTHING.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return RowFormat.LINES
    return None if _is_base64(first) else RowFormat.JSONL  # 1234 and true are both


def _is_base64(text: bytes) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def first_row(head: bytes) -> bytes | None:
    """The first line of the content, None where there is nothing."""
    return head.partition(b"\n")[0] if head else None


def members_of(row: bytes) -> frozenset[str] | None:
    """The names of a JSON object's members, None for a row that is none."""
    try:
        return frozenset(_OBJECT.decode(row))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def avro_members(head: bytes) -> frozenset[str] | None:
    """The fields of the record in the schema of an Avro container, None where the head does not show them."""
    schema = _avro_schema(head)
    fields = schema.get("fields") if schema else None
    if not isinstance(fields, list):
        return None
    return frozenset(field["name"] for field in fields if isinstance(field, dict) and "name" in field)


def avro_name(head: bytes) -> str | None:
    """The full name of the record in the schema of an Avro container, None where there is none."""
    schema = _avro_schema(head)
    if not schema or not isinstance(schema.get("name"), str):
        return None
    return f"{schema.get('namespace', '')}.{schema['name']}".lstrip(".")


def _avro_schema(head: bytes) -> dict[str, object] | None:
    """The schema as it is in the header, whose length is before it: found by the name of its entry."""
    at = head.find(b"avro.schema")
    if not head.startswith(_AVRO) or at < 0:
        return None
    at += len(b"avro.schema")
    size, shift = 0, 0
    for octet in head[at : at + 5]:
        size |= (octet & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if octet < 0x80:  # noqa: PLR2004  # the last octet of a number
            break
    try:
        schema = msgspec.json.decode(head[at : at + size // 2])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return schema if isinstance(schema, dict) else None
