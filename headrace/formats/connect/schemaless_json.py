"""JSON without a schema as it comes out of JsonConverter and Jackson again: numbers in Java's spelling.

Theirs writes members in the order of a hash table; ours keeps the record's order. Whole numbers beyond 64
bits stay as they are here, where JsonConverter cuts them to 64 bits.
"""

import json
import re
from typing import Any, Final

from headrace.formats.connect.jackson import jackson_text
from headrace.model.columns import Column, column_of
from headrace.options.connect_writing import Astral

# A number that Java writes just so, and what may not follow it.
_NUMBER: Final = (
    rb"(?:-?[1-9]\d{0,6}\.(?:0|\d{0,8}[1-9])|0\.0|-?0\.0{0,2}[1-9](?:\d{0,8}[1-9])?|0|-?[1-9]\d*)(?![\d.eE])"
)
_STRING: Final = rb'"[^"\\%b]*+(?:\\["\\bfnrt][^"\\%b]*+)*+"'
_MARK: Final = rb"[{}\[\],:]"
_WORD: Final = rb"true|false|null"


def _unchanged(besides: bytes) -> re.Pattern[bytes]:
    """What fits whole texts of which nothing changes; strings may not hold the bytes `besides`."""
    return re.compile(rb"(?:%b|%b|%b|%b)*+" % (_STRING % (besides, besides), _MARK, _NUMBER, _WORD))


_UNCHANGED: Final = {Astral.RAW: _unchanged(b""), Astral.ESCAPED: _unchanged(rb"\xf0-\xf4")}


def jackson_json(text: bytes, astral: Astral = Astral.ESCAPED) -> bytes:
    """A JSON text as JsonConverter and Jackson write it again. ValueError where it is not JSON."""
    if _UNCHANGED[astral].fullmatch(text) is not None:
        return text
    return jackson_text(_read(text), astral).encode()


def jackson_column(texts: Column, astral: Astral = Astral.ESCAPED) -> Column:
    """The same for each JSON text of a column; nulls are nulls."""
    values = texts.each(0, len(texts))
    return column_of([None if text is None else jackson_json(text, astral) for text in values])


def _read(text: bytes) -> Any:
    return json.loads(text, parse_float=_double)


def _double(text: str) -> float:
    # Jackson reads a BigDecimal, which has no negative zero.
    return float(text) + 0.0
