"""Members of JSON texts by their path, without reading the rest of a text."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from headrace.formats.converted_records import MISSING


def json_fields(texts: Iterable[bytes | None], path: Sequence[str]) -> list[object]:
    """The member at `path` of each JSON text, MISSING where there is none; for an empty path the value."""
    decoder = _decoder(tuple(path))
    return [_found(decoder, text, len(path)) for text in texts]


def _found(decoder: msgspec.json.Decoder[Any], text: bytes | None, depth: int) -> object:
    if text is None:
        return MISSING if depth else None
    try:
        found = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MISSING
    for _ in range(depth):
        if found is MISSING:
            return MISSING
        found = found.found
    return found


@lru_cache(maxsize=256)
def _decoder(path: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """A decoder of structures that have the members of the path and skip all others."""
    kind: Any = Any
    for name in reversed(path):
        kind = msgspec.defstruct("Member", [("found", kind, MISSING)], rename={"found": name}, gc=False)
    return msgspec.json.Decoder(kind)
