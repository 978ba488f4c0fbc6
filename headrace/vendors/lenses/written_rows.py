"""What is written into Lenses' rows: the order of its members, strings, and the values of CSV. Pure."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.connect import ConnectSchema, Type
from headrace.formats.connect.jackson import jackson_json, jackson_string
from headrace.formats.connect.json_text import connect_json
from headrace.options.connect_writing import Astral, DecimalFormat, JsonStyle
from headrace.options.restoring import Newlines

# As its HashMap has them, so that rows are the same to the byte.
MEMBER_ORDER: Final = ("headers", "metadata", "keyIsArray", "value", "key", "valueIsArray")
BARE: Final = JsonStyle(decimals=DecimalFormat.NUMERIC, astral=Astral.ESCAPED)
ENVELOPED: Final = JsonStyle(decimals=DecimalFormat.NUMERIC, astral=Astral.RAW)

Headers = Iterable[tuple[str, bytes | None]]


def text_bytes(text: bytes, newlines: Newlines) -> bytes:
    """A text as it is in a row of TEXT."""
    return text.replace(b"\n", b"\\n") if newlines is Newlines.ESCAPED else text


def text_json(text: bytes, newlines: Newlines) -> bytes:
    """A text as a bare row of JSON."""
    return jackson_string(text_bytes(text, newlines).decode(), Astral.ESCAPED).encode()


def bare_json(text: bytes, newlines: Newlines) -> bytes:
    """A JSON text without a schema as a bare row: a string is escaped like one, the rest is Jackson's."""
    if not text.startswith(b'"'):
        return jackson_json(text, Astral.RAW)
    if newlines is Newlines.ESCAPED and b"\\" in text:
        return text_json(json.loads(text).encode(), newlines)
    return jackson_json(text, Astral.ESCAPED)


def headers_json(headers: Headers, value_json: Callable[[bytes], str]) -> bytes:
    """The headers of a record as an object: of those with one name the last."""
    last = dict(headers)
    members = (
        f"{jackson_string(name)}:{'null' if value is None else value_json(value)}"
        for name, value in last.items()
    )
    return f"{{{','.join(members)}}}".encode()


def csv_row_texts(array: Any, schema: ConnectSchema) -> Any:
    """The field of CSV for each value of a member: quoted, and nothing for a null."""
    if schema.type is Type.STRING:
        texts = array.cast(pa.string())
    else:
        texts = pc.utf8_trim(connect_json(array, schema, ENVELOPED), '"')
    doubled = pc.replace_substring(texts, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(array.is_valid(), quoted, "").cast(pa.binary())


def csv_head(names: Iterable[str]) -> bytes:
    """The first line of CSV_WITHHEADERS."""
    return ",".join('"' + name.replace('"', '""') + '"' for name in names).encode() + b"\n"
