"""What an object holds: of an archive by its name, else, as a hint, by its first bytes. Pure."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec

from headrace.formats.avro_schema import Node, SchemaError, avro_record, parse_schema
from headrace.names.archive_names import ArchiveName, LayoutName, ObjectKind
from headrace.options.choices import (
    CSV_FIELDS,
    Compression,
    CsvEncoding,
    Enveloped,
    Form,
    InputFormat,
    RestoreOptions,
)

# So many lines are looked at, and as many of them have to agree.
_LINES: Final = 20
_FEW_LINES: Final = 2
_BOM: Final = b"\xef\xbb\xbf"
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SPELLED: Final = {"\t": "\\t"}
_CONVERT: Final = "convert it to JSON Lines, Avro or Parquet, or set input.format=bytes to bring it unread"


@dataclass(frozen=True, slots=True)
class Content:
    """What bytes look like: `words` for a sentence, the input format that reads it, and what else to do.

    `also` are formats that may read it as well, and `options` what the format needs next to itself.
    `is_seen`: `input.format=auto` takes it for what it is.
    """

    words: str
    format: InputFormat | None = None
    otherwise: str = _CONVERT
    also: frozenset[InputFormat] = frozenset()
    options: str = ""
    is_seen: bool = True

    def is_read_by(self, input_format: InputFormat) -> bool:
        """Whether objects like this are rows to this format."""
        if input_format is InputFormat.AUTO:
            return self.format is not None and self.is_seen
        return input_format in {InputFormat.BYTES, self.format, *self.also}

    @property
    def remedy(self) -> str:
        """What to do when the configured format does not read it."""
        return self.otherwise if self.format is None else f"set input.format={self.format}{self.options}"


_TEXT: Final = frozenset({InputFormat.TEXT})
_JSONL: Final = Content("JSON Lines", InputFormat.JSONL, also=_TEXT)
# An array on one line is a line of JSON, too.
_ARRAYS: Final = replace(_JSONL, also=_TEXT | {InputFormat.JSON})
_ARRAY: Final = Content("one JSON array over several lines", InputFormat.JSON, also=_TEXT)
_DOCUMENT: Final = Content(
    "a JSON document over several lines",
    InputFormat.JSON,
    also=_TEXT,
    options=" (and json.path, if the rows are in an array inside it)",
    is_seen=False,
)
_SEQUENCE: Final = replace(_DOCUMENT, words="JSON objects with no line ends between them", options="")
_MAGIC: Final = (
    (b"PAR1", Content("Parquet", InputFormat.PARQUET)),
    (b"PARE", Content("Parquet with an encrypted footer")),
    (b"Obj\x01", Content("an Avro object container file", InputFormat.AVRO)),
    (b"ORC", Content("ORC")),
    (b"\xff\xfe", Content("UTF-16 text", None, "write it as UTF-8")),
    (b"\xfe\xff", Content("UTF-16 text", None, "write it as UTF-8")),
    (b"PK\x03\x04", Content("a ZIP archive", None, "set input.archive=zip to read its members")),
    (b"%PDF-", Content("PDF")),
)


def recognise(head: bytes) -> Content | None:
    """What a plain (decompressed) object that begins like this looks like; None when that cannot be known."""
    for magic, content in _MAGIC:
        if head.startswith(magic):
            return content
    text = _text(head.removeprefix(_BOM))
    if text is None:
        return Content("binary data")
    return Content("XML or HTML", also=_TEXT) if text.lstrip()[:1] == "<" else _of_text(text)


def _of_text(text: str) -> Content | None:
    # The last line may be cut off, or nothing.
    texts = text.split("\n")
    lines = [line for line in (texts[:-1] or texts)[:_LINES] if line.strip()]
    if not lines:
        return None
    good = [_is_json(line) for line in lines]
    first = text.lstrip()[0]
    if all(good):
        return _ARRAYS if first == "[" else _JSONL
    if not good[0] and _holds_several(lines[0]):
        return _SEQUENCE
    if any(good[:_FEW_LINES]) or len(lines) < _FEW_LINES:
        return None  # lines of JSON with a broken one among them, or too little to know
    return {"[": _ARRAY, "{": _DOCUMENT}.get(first) or _of_lines(lines)


def _text(head: bytes) -> str | None:
    """The text, without a character that is cut off at its end; None for what is none."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if len(head) - error.start > 3:  # noqa: PLR2004 - the longest beginning of a character
            return None
        text = head[: error.start].decode()
    return None if "\x00" in text else text


# Python reads no whole number of more than 4,300 digits.
_ANY_JSON: Final = json.JSONDecoder(parse_int=str)


def _is_json(line: str) -> bool:
    try:
        _ANY_JSON.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def _holds_several(line: str) -> bool:
    """Whether the line begins with a JSON object, and another one after it."""
    text = line.lstrip()
    try:
        behind = text[_ANY_JSON.raw_decode(text)[1] :] if text.startswith("{") else ""
    except (ValueError, RecursionError):
        return False
    return behind.lstrip().startswith("{")


def _of_lines(lines: list[str]) -> Content:
    for separator, name in _SEPARATORS.items():
        counts = {line.count(separator) for line in lines}
        if len(counts) == 1 and counts != {0}:
            needs = "" if separator == "," else f" and csv.delimiter={_SPELLED.get(separator, separator)}"
            return Content(f"CSV (columns between {name})", InputFormat.CSV, also=_TEXT, options=needs)
    # Of one column, or with quotes, CSV looks like this as well.
    return Content("lines of text that are not JSON", InputFormat.TEXT, also=frozenset({InputFormat.CSV}))


_AVRO: Final = b"Obj\x01"
_PARQUET: Final = b"PAR1"
# How Aiven's json begins; a value that begins so is not written by jsonl or csv.
_ARRAY_BEGIN: Final = b"[\n"
# So begins JSON that may be broken, and no csv of base64 or of numbers.
_OBJECT_BEGIN: Final = b'{"'
_JSON_BEGINS: Final = (b"{", b"[", b'"')
_BLANKS: Final = b" \t\r\n"
_LINES_NEXT: Final = 8  # looked at after one that is good in no format
_ANYTHING: Final = msgspec.json.Decoder(msgspec.Raw)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class RowShape:
    """What the schema of an object of Avro or Parquet, or a row of JSON, says of an object's rows.

    `members` are those of its structs, none where rows are something else, and `within` what those of them
    that are structs have themselves; `with_nulls` those of them that are null in some row of the object, as
    far as that is known without reading it (Parquet's footer). `is_ours` where the object says that our sink
    wrote it; `record` is the full name of the Avro record that a schema is of, empty where there is none.
    """

    members: frozenset[str] = frozenset()
    with_nulls: frozenset[str] = frozenset()
    is_ours: bool = False
    within: Mapping[str, frozenset[str]] = field(default_factory=dict)
    record: str = ""


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

# It has no others of its own: `.csv`, say, is what ByteArray was given (`format.bytearray.extension`).
_OF_CONFLUENT: Final = frozenset({RowFormat.AVRO, RowFormat.PARQUET, RowFormat.JSONL})

# The extension of values that are stored byte for byte: such a value may be a file itself.
_STORED: Final = {LayoutName.CONFLUENT: "bin", LayoutName.LENSES: "bytes"}
_BYTES: Final = frozenset({RowFormat.WHOLE, RowFormat.SEPARATED})
_PLAIN: Final = RestoreOptions()


def row_format(
    name: ArchiveName, head: bytes, options: RestoreOptions = _PLAIN, lines: Iterable[bytes] | None = None
) -> RowFormat | None:
    """The format of the object with this name whose decompressed content begins with `head`.

    `lines` are its lines, those of the head where they are not given; they are looked at until one decides.
    What the content shows goes before the name, unless that says that values are stored byte for byte.
    None where both jsonl and csv would begin so: `input.format` has to say which.
    """
    if not _holds_stored_values(name):
        if head.startswith(_AVRO):
            return RowFormat.AVRO
        if head.startswith(_PARQUET):
            return RowFormat.PARQUET
    if name.layout is LayoutName.AIVEN:
        return _aiven(head, options, head.removeprefix(_BOM).split(b"\n") if lines is None else lines)
    named = named_format(name)
    return RowFormat.JSON if named is RowFormat.JSONL and inked(head).startswith(_ARRAY_BEGIN) else named


def inked(head: bytes) -> bytes:
    """The head without a byte order mark and blanks before its first row."""
    return head.removeprefix(_BOM).lstrip(_BLANKS)


def named_format(name: ArchiveName) -> RowFormat | None:
    """The format that the name says, None where names of its layout say nothing."""
    if name.layout is LayoutName.AIVEN:
        return None
    known = [_BY_EXTENSION[f".{label}"] for label in _labels(name) if f".{label}" in _BY_EXTENSION]
    if name.layout is LayoutName.CONFLUENT:
        known = [each for each in known if each in _OF_CONFLUENT]
    if known:
        return known[-1]
    if name.kind is ObjectKind.KEYS or (
        name.layout is LayoutName.CONFLUENT and name.kind is ObjectKind.VALUES
    ):
        return RowFormat.SEPARATED  # ByteArray writes any extension
    return RowFormat.JSONL  # Lenses' .gz, and extensions that Quix was given


def holds_bytes(name: ArchiveName) -> bool:
    """Whether the name says that the object holds bytes: one value, or values between separators."""
    return named_format(name) in _BYTES


def is_sniffed(name: ArchiveName, found: RowFormat | None, compression: Compression) -> bool:
    """Whether the first bytes of an object say how it is compressed, and are not those of a value.

    Bytes are as they are stored where it was said that nothing is compressed, and in objects of Lenses' sink,
    which compresses none of them.
    """
    if found not in _BYTES:
        return True
    is_whole = name.layout is LayoutName.LENSES and _holds_stored_values(name)
    return compression is not Compression.NONE and not is_whole


def _holds_stored_values(name: ArchiveName) -> bool:
    return name.kind is ObjectKind.VALUES and _STORED.get(name.layout) in _labels(name)


def _labels(name: ArchiveName) -> list[str]:
    return [label for label in name.extension.split(".") if label]


def _aiven(head: bytes, options: RestoreOptions, lines: Iterable[bytes]) -> RowFormat | None:
    """Names of this sink say nothing of the format: the first line decides that is good in one of them."""
    if options.csv_encoding is CsvEncoding.NONE and "value" in options.csv_fields:
        return _with_plain_values(head.removeprefix(_BOM), options)
    if inked(head).startswith(_ARRAY_BEGIN):
        return RowFormat.JSON
    # Texts that nothing encodes may begin as broken JSON does, but for an envelope's.
    broken = _OBJECT_BEGIN if options.value is Form.STRING else _JSON_BEGINS
    for line in (rest := iter(lines)):
        text = line.strip(_BLANKS)
        if is_whole_json(text):
            # 1234 and true are both. A blank line before is a row of csv, and jsonl has none.
            return RowFormat.JSONL if not _is_base64(text) else _with_blanks(head)
        if text and not text.startswith(broken):
            is_csv = _may_be_csv(text, options) or not _is_json_next(text, rest, options)
            return RowFormat.LINES if is_csv else None
    # No row of either is good: bad JSON stays that, and gives no null.
    return RowFormat.JSONL if inked(head).startswith(broken) else RowFormat.LINES


def _may_be_csv(text: bytes, options: RestoreOptions) -> bool:
    """False for a line that is no row of csv, whose values are of base64."""
    names, fields = options.csv_fields, text.split(b",")
    return len(fields) == len(names) and ("value" not in names or _is_base64(fields[names.index("value")]))


def _is_json_next(first: bytes, lines: Iterator[bytes], options: RestoreOptions) -> bool:
    """Whether a JSON object, which no csv has, comes before a line that may be one of csv."""
    # Any text may be, that nothing has encoded, but for an envelope's; the first may come twice.
    is_base64 = options.value in {Form.AUTO, Form.BASE64}
    for text in (line.strip(_BLANKS) for line in islice(lines, _LINES_NEXT)):
        is_json = text.startswith(b"{") and is_whole_json(text) and (is_base64 or _may_be_envelope(text))
        if is_json or (text not in (b"", first) and (not is_base64 or _may_be_csv(text, options))):
            return is_json
    return False


def _with_plain_values(head: bytes, options: RestoreOptions) -> RowFormat | None:
    """An option of csv, whose values may be JSON; a configuration of jsonl may still have it."""
    if head.startswith(_ARRAY_BEGIN):
        return None
    first = head.partition(b"\n")[0]
    return None if _parses(first) and _may_be_jsonl(first, options) else RowFormat.LINES


def _with_blanks(head: bytes) -> RowFormat | None:
    return RowFormat.LINES if head.removeprefix(_BOM).startswith(b"\n") else None


def is_whole_json(text: bytes) -> bool:
    """True for one JSON value, as rows are checked: what is none is a bad row and shows nothing."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return _parses(text)


def _parses(text: bytes) -> bool:
    try:
        _ANYTHING.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _may_be_jsonl(first: bytes, options: RestoreOptions) -> bool:
    """True for a row like the envelope of jsonl, and where it was said whether it has one."""
    return options.envelope is not Enveloped.AUTO or _may_be_envelope(first)


def _may_be_envelope(row: bytes) -> bool:
    return bool((members := members_of(row)) and members <= set(CSV_FIELDS))


def _is_base64(text: bytes) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def first_row(head: bytes) -> bytes | None:
    """The first line that is not blank, as far as the head has it; None where there is nothing."""
    return inked(head).partition(b"\n")[0] if head else None


def members_of(row: bytes | msgspec.Raw) -> frozenset[str] | None:
    """The names of a JSON object's members, None for a row that is none."""
    try:
        return frozenset(_OBJECT.decode(row))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def json_shape(row: bytes) -> RowShape | None:
    """The names of a JSON object's members, and of what is in these; None for a row that is none."""
    try:
        found = _OBJECT.decode(row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    within = {name: members for name, text in found.items() if (members := members_of(text)) is not None}
    return RowShape(frozenset(found), within=within)


def avro_shape(head: bytes) -> RowShape | None:
    """What the schema of an Avro container says of its rows, None where the head does not show it."""
    text = _avro_schema_text(head)
    try:
        return None if text is None else shape_of_node(parse_schema(text))
    except SchemaError:
        return None


def shape_of_node(node: Node) -> RowShape:
    """What a schema of Avro says of rows."""
    if node.kind != "record":
        return RowShape()
    below = {name: child.nullable or child for name, child in node.fields}
    within = {name: _names(child) for name, child in below.items() if child.kind == "record"}
    return RowShape(_names(node), within=within, record=node.name or "")


def _names(node: Node) -> frozenset[str]:
    return frozenset(name for name, _ in node.fields)


def avro_name(head: bytes) -> str | None:
    """The full name of the record in the schema of an Avro container, None where there is none."""
    return avro_record(_avro_schema_text(head) or b"") or None


def has_schema(head: bytes) -> bool:
    """Whether all of an Avro container's schema is there; what else begins so has none."""
    return not head.startswith(_AVRO) or _avro_schema_text(head) is not None


def _avro_schema_text(head: bytes) -> bytes | None:
    """The schema as it is in the header, whose length is before it: found by the name of its entry.

    None where not all of it is there.
    """
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
    text = head[at : at + size // 2]
    return text if size and len(text) == size // 2 else None
