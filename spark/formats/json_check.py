"""Whether lines are JSON: for a whole buffer at once, and for one line with the reason why not.

JSON here is what msgspec parses: RFC 8259 without NaN and Infinity; numbers of any size and duplicate names
pass, lone surrogate escapes do not (no UTF-8 text can hold what they say).
"""

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from spark.rows import Numbers

_decoder: Final = msgspec.json.Decoder(msgspec.Raw)
_decode: Final[Callable[[bytes], msgspec.Raw]] = _decoder.decode
_decode_lines: Final[Callable[[bytes], list[msgspec.Raw]]] = _decoder.decode_lines


def are_all_json(buffer: bytes, lengths: Numbers) -> bool:
    """True when the non-blank lines of `buffer` are one JSON value each; `lengths` are theirs, trimmed.

    False may still mean that every line is good; then `fault` has to look at each. Values found in the buffer
    stand in its order and nothing but white space is between them. So when there are as many values as lines,
    and each is as long as its line, the first value is the first line, what follows begins with the second,
    and so on: no value spans lines and no line holds two.
    """
    try:
        if not buffer.isascii():
            buffer.decode()  # the parser does not look at what strings hold
        values = _decode_lines(buffer)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    if len(values) != len(lengths):
        return False
    found = np.fromiter(map(len, values), np.int64, len(values))
    return bool(np.array_equal(found, lengths))


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
