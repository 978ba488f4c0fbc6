"""Objects without a schema: the members of each row's JSON, copied where nothing changes them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from headrace.formats.converted_records import ConvertedColumn, Form
from headrace.formats.converters.plain_columns import PlainColumn
from headrace.formats.transforms.refused_rows import Refused
from headrace.model.columns import Numbers, column_of

NULL: Final = msgspec.Raw(b"null")
Members = dict[str, msgspec.Raw]

_MEMBERS: Final = msgspec.json.Decoder(Members)
_NO_OBJECT: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def members_of(text: bytes | msgspec.Raw) -> Members:
    """The members of a JSON object; Refused for any other JSON."""
    try:
        return _MEMBERS.decode(text)
    except _NO_OBJECT:
        raise Refused("it is no JSON object") from None


class JsonObjects:
    """One object for each row, None for a null."""

    def __init__(self, rows: list[Members | None]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def renamed(self, name_of: Callable[[str], str | None]) -> "JsonObjects":
        """The members under other names; those for which the name is None are left out."""
        names: dict[str, str | None] = {}
        found: list[Members | None] = []
        for row in self.rows:
            if row is None:
                found.append(None)
                continue
            members: Members = {}
            for name, member in row.items():
                if name not in names:
                    names[name] = name_of(name)
                new = names[name]
                if new is not None:
                    members[new] = member
            found.append(members)
        return JsonObjects(found)

    def put(self, name: str, texts: Sequence[bytes | None]) -> None:
        """Give each object a member of this JSON; None leaves the object as it is."""
        for row, text in zip(self.rows, texts, strict=True):
            if row is not None and text is not None:
                row[name] = msgspec.Raw(text)

    def members(self, name: str) -> list[bytes | None]:
        """The JSON of a member of each object; None where it is null or missing, and for a null."""
        found = (None if row is None else row.get(name) for row in self.rows)
        return [None if member is None or bytes(member) == b"null" else bytes(member) for member in found]

    def column(self) -> PlainColumn:
        """The objects as JSON texts."""
        return json_column([None if row is None else msgspec.json.encode(row) for row in self.rows])


def json_column(texts: Sequence[bytes | None]) -> PlainColumn:
    """A column of JSON texts."""
    return PlainColumn(column_of(texts), Form.JSON)


def value_of(text: bytes) -> Any:
    """The value of a JSON text, a number with a fraction or exponent as a float."""
    return msgspec.json.decode(text)


def loosened(texts: Sequence[bytes | None]) -> list[tuple[Numbers, ConvertedColumn]]:
    """JSON texts as columns with the rows of each: JSON strings are text from here on, others stay JSON."""
    strings = np.array([text is not None and text[:1] == b'"' for text in texts], np.bool_)
    nulls = np.array([text is None for text in texts], np.bool_)
    if strings.any():
        strings |= nulls
    parts: list[tuple[Numbers, ConvertedColumn]] = []
    for chosen, form in ((strings, Form.TEXT), (~strings, Form.JSON)):
        rows = np.flatnonzero(chosen)
        if len(rows):
            found = [texts[row] for row in rows.tolist()]
            if form is Form.TEXT:
                found = [
                    None if text is None else msgspec.json.decode(text, type=str).encode() for text in found
                ]
            parts.append((rows, PlainColumn(column_of(found), form)))
    return parts
