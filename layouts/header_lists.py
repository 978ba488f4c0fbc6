"""Headers that rows of JSON carry: lists of key and value, or objects."""

from collections.abc import Sequence
from typing import Final

import msgspec

from layouts.json_members import bytes_of
from layouts.options import Form
from layouts.records import Faults, Headers, RowUnfit


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: msgspec.Raw = msgspec.Raw(b"null")


_LIST: Final = msgspec.json.Decoder(list[_Entry])
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NONE: Final = frozenset({b"", b"null", b"[]", b"{}"})


def header_rows(texts: Sequence[msgspec.Raw], form: Form, faults: Faults) -> list[Headers]:
    """The headers of each row. Equal texts, which are frequent, are read once."""
    known: dict[bytes, Headers] = dict.fromkeys(_NONE, ())
    found = []
    for row, raw in enumerate(texts):
        text = bytes(raw)
        headers = known.get(text)
        if headers is None:
            try:
                headers = known[text] = _headers(text, form)
            except RowUnfit as error:
                faults.add(row, error.reason, str(error))
                headers = ()
        found.append(headers)
    return found


def _headers(text: bytes, form: Form) -> Headers:
    try:
        if text[:1] == b"{":
            return tuple((name, bytes_of(raw, form, "header")) for name, raw in _OBJECT.decode(text).items())
        return tuple((entry.key, bytes_of(entry.value, form, "header")) for entry in _LIST.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RowUnfit("the headers are no list of key and value", reason="not_an_envelope") from None
