"""Headers that rows of JSON carry: lists of key and value, or objects."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from headrace.formats.json_members import NULL, bytes_of
from headrace.formats.record_columns import Faults, RowUnfit
from headrace.model.kafka_records import Headers
from headrace.options.restoring import Form


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: msgspec.Raw = msgspec.Raw(b"null")


_LIST: Final = msgspec.json.Decoder(list[_Entry])
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def header_rows(texts: Sequence[msgspec.Raw], form: Form, faults: Faults) -> list[Headers] | None:
    """The headers of each row, None where no row has any."""
    return read_headers(texts, lambda text: _headers(text, form), faults)


def read_headers(
    texts: Sequence[msgspec.Raw], read: Callable[[bytes], Headers], faults: Faults
) -> list[Headers] | None:
    """What `read` makes of the JSON of each row's headers, None where no row has any.

    Equal texts, which are frequent, are read once.
    """
    if texts.count(NULL) == len(texts):
        return None
    found: list[Headers] = [()] * len(texts)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    known: dict[bytes, Headers] = {b"null": ()}
    # The others have none: [] or {}.
    for row in np.flatnonzero(lengths > len(b"[]")).tolist():
        text = bytes(texts[row])
        headers = known.get(text)
        if headers is None:
            try:
                headers = known[text] = read(text)
            except RowUnfit as error:
                faults.add(row, error.reason, str(error))
                continue
        found[row] = headers
    return found


def _headers(text: bytes, form: Form) -> Headers:
    try:
        if text[:1] == b"{":
            return tuple((name, bytes_of(raw, form, "header")) for name, raw in _OBJECT.decode(text).items())
        return tuple((entry.key, bytes_of(entry.value, form, "header")) for entry in _LIST.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RowUnfit("the headers are no list of key and value", reason="not_an_envelope") from None
