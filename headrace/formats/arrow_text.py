"""Text of Arrow columns put together column by column, without a Python object for each value."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Text of a column: literals and string arrays that stand side by side in each row.
Pieces = list[Any]

_QUOTE: Final = '"'
_CONTROLS: Final = [bytes([code]) for code in range(32)]
_SHORT_ESCAPES: Final = {b"\b": "\\b", b"\t": "\\t", b"\n": "\\n", b"\f": "\\f", b"\r": "\\r"}


def joined(pieces: Pieces, length: int) -> Any:
    """One string array of the pieces side by side."""
    merged: Pieces = []
    for piece in pieces:
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1:
        return pa.array([merged[0]] * length, pa.string()) if isinstance(merged[0], str) else merged[0]
    return pc.binary_join_element_wise(*merged, "")


def gathered(texts: Any, lengths: Any) -> Any:
    """The texts of each list joined by commas; `lengths` says how many each list has, null being none."""
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")


def escaped(text: Any, *, hexadecimal: str = "04x") -> Any:
    """Strings with what JSON does not allow inside quotes escaped; everything else stays as it is."""
    octets = string_octets(text)
    if not len(octets):
        return text
    if (octets == ord("\\")).any():
        text = pc.replace_substring(text, "\\", "\\\\")
    if (octets == ord(_QUOTE)).any():
        text = pc.replace_substring(text, _QUOTE, '\\"')
    controls = octets[octets < len(_CONTROLS)]
    if len(controls):
        for code in np.unique(controls).tolist():
            control = _CONTROLS[code]
            escape = _SHORT_ESCAPES.get(control, f"\\u{code:{hexadecimal}}")
            text = pc.replace_substring(text, control, escape)
    return text


def string_octets(text: Any) -> Any:
    """All bytes of a string or binary column, slices respected."""
    _, offsets, content = text.buffers()
    if content is None or not len(text):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
