"""Members of JSON texts by their paths, found without making the rest of a text."""

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import msgspec

from headrace.formats.converted_records import MISSING
from headrace.formats.encodings import is_plain_name


def json_fields(
    texts: Iterable[bytes | None],
    path: Sequence[str],
    *,
    whole_first: bool = True,
    has_places: bool = False,
) -> list[object]:
    """The member at `path` of each JSON text, MISSING where there is none; for an empty path the value.

    With `whole_first` a member whose name is the whole path, dots and all, comes first; with `has_places` a
    number in the path is a place in a list, too.
    """
    whole = ".".join(path) if whole_first and len(path) > 1 else None
    has_places = has_places and any(map(str.isdecimal, path))
    if has_places or not all(map(is_plain_name, path)):
        return [_walked_to(text, path, whole, has_places=has_places) for text in texts]
    decoder = _decoder(tuple(path), whole)
    return [_found(decoder, text, len(path), whole) for text in texts]


def _found(decoder: msgspec.json.Decoder[Any], text: bytes | None, depth: int, whole: str | None) -> object:
    if text is None:
        return MISSING if depth else None
    try:
        found = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # What the path begins with may be no object, and the member of the whole name still there.
        return MISSING if whole is None else _found(_decoder((whole,), None), text, 1, None)
    if whole is not None and found.whole is not MISSING:
        return found.whole
    for _ in range(depth):
        if found is MISSING:
            return MISSING
        found = found.found
    return found


@lru_cache(maxsize=256)
def _decoder(path: tuple[str, ...], whole: str | None) -> msgspec.json.Decoder[Any]:
    """A decoder of structures that have the members of the path, and the one named `whole`, and no others."""
    kind: Any = Any
    for depth, name in reversed(tuple(enumerate(path))):
        members: list[tuple[str, Any, Any]] = [("found", kind, MISSING)]
        names = {"found": name}
        if depth == 0 and whole is not None:
            members.append(("whole", Any, MISSING))
            names["whole"] = whole
        kind = msgspec.defstruct("Member", members, rename=names, gc=False)
    return msgspec.json.Decoder(kind, float_hook=_number)


def _walked_to(text: bytes | None, path: Sequence[str], whole: str | None, *, has_places: bool) -> object:
    """As `_found`, for places in lists, and names that no structure can have: all of the text is made."""
    if text is None:
        return MISSING
    try:
        found = _ANYTHING.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MISSING
    if whole is not None and isinstance(found, dict) and whole in found:
        return found[whole]
    for name in path:
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif has_places and isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return MISSING
    return found


def _number(text: str) -> float | Decimal:
    """A double; a decimal where that would be another number, such as one with 18 digits, or infinite."""
    found = float(text)
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return found
    return found if exact == Decimal(repr(found)) else exact


_ANYTHING: Final = msgspec.json.Decoder(float_hook=_number)
