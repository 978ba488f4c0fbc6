"""Whether lines are JSON: for a whole buffer at once, and for one line with the reason why not.

JSON here is what msgspec parses: RFC 8259 without NaN and Infinity; numbers of any size and duplicate names
pass, lone surrogate escapes do not (no UTF-8 text can hold what they say).
"""

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from headrace.model.rows import Column, Numbers

Octets = bytes | bytearray | memoryview

_decoder: Final = msgspec.json.Decoder(msgspec.Raw)
_decode: Final[Callable[[bytes], msgspec.Raw]] = _decoder.decode
_decode_lines: Final[Callable[[Octets], list[msgspec.Raw]]] = _decoder.decode_lines

_OPENS: Final = ord("{")
_CLOSES: Final = ord("}")
_BEYOND_ASCII: Final = 0x80


def are_all_json(buffer: Octets, starts: Numbers, lengths: Numbers) -> bool:
    """True when the non-blank lines of `buffer` are one JSON value each; where they are is given trimmed.

    False may still mean that every line is good; then `fault` has to look at each. Values found in the buffer
    are in its order and nothing but white space is between them, and there have to be as many as lines.
    Whether no value spans lines, and so no line holds two, is seen in one of two ways:

    - Where every line begins with `{` and ends with `}`, a value over two lines would have `}`
      and `{` side by side within it, or a line's end within a string. JSON knows neither.
    - Else each value has to be as long as its line: then the first value is the first line, what follows
      begins with the second, and so on.
    """
    try:
        if not _is_ascii(buffer):
            str(buffer, "utf-8")  # the parser does not look at what strings hold
        values = _decode_lines(buffer)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    if len(values) != len(lengths):
        return False
    if _are_enclosed(buffer, starts, lengths):
        return True
    found = np.fromiter(map(len, values), np.int64, len(values))
    return bool(np.array_equal(found, lengths))


def _is_ascii(buffer: Octets) -> bool:
    if isinstance(buffer, memoryview):
        return not len(buffer) or int(np.frombuffer(buffer, np.uint8).max()) < _BEYOND_ASCII
    return buffer.isascii()


def are_all_rows(buffer: bytes, lines: Column, fit: Callable[[Column], bool]) -> bool:
    """True when `fit` says so of these lines of `buffer`, and each holds one row of it (see `are_all_json`).

    None may be blank, and nothing may be between them. False may still mean that every line is good.
    """
    if not buffer.isascii():
        try:
            buffer.decode()
        except UnicodeDecodeError:
            return False
    return _are_enclosed(buffer, lines.starts, lines.lengths) and fit(lines)


def _are_enclosed(buffer: Octets, starts: Numbers, lengths: Numbers) -> bool:
    octets = np.frombuffer(buffer, np.uint8)
    return bool((octets[starts] == _OPENS).all() and (octets[starts + (lengths - 1)] == _CLOSES).all())


def fault(line: bytes) -> tuple[str, str] | None:
    """Why a line is no JSON value, as a reason and a sentence without content; None when it is one."""
    try:
        line.decode()
        _decode(line)
    except UnicodeDecodeError as error:
        return "not_utf8", f"the line is not UTF-8: {error.reason} at byte {error.start}"
    except msgspec.DecodeError as error:
        return "not_json", f"the line is not one JSON value: {error}"
    except RecursionError:
        return "too_deep", "the line is nested deeper than the JSON parser follows (about 1,000 levels)"
    return None
