"""Where in a JSON document the array is that `json.path` names, found chunk by chunk.

What is around the array is only followed, not checked: strings, brackets, and the names along the path.
Nothing of it is held but a name that may be the next of the path. What can go wrong, each an ArrayError with
its words: the document is not an object; it ends without the array; something else has the array's name, or
that of an object on the way; the name is there twice, so that two arrays would be meant. A stream that ends
inside a document is the caller's to see by `is_open`.
"""

import json
import re
from typing import Final

_BLANKS: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
_MARK: Final = re.compile(rb'["\[\]{},:]')
_END_OF_STRING: Final = re.compile(rb'["\\]')
# What a character of a name takes at most: an escape of a surrogate pair.
_ESCAPED_BYTES: Final = 12


class ArrayError(ValueError):
    """The stream is no array, ends otherwise than one, or continues after its end."""


class ArrayFinder:
    """Follows documents, one after another, each to its array and after that to its end.

    `is_inside`: the stream begins within the first array, whose closing bracket the caller finds.
    """

    def __init__(self, path: tuple[str, ...], *, is_inside: bool = False) -> None:
        self._path = path
        self._longest = max(map(len, path)) * _ESCAPED_BYTES
        self._depth = len(path) if is_inside else 0
        self._matched = self._depth  # objects of the path that are open; they are the outermost ones
        self._has_array = is_inside
        self._in_string = False
        self._escaped = False
        self._name: bytearray | None = None  # the string that may be the next name of the path
        self._expects_name = False
        self._is_named = False  # what comes has the path's next name
        self._is_first = not is_inside

    @property
    def is_open(self) -> bool:
        """Whether a document has begun and not ended."""
        return self._depth > 0

    def found(self, chunk: bytes) -> int | None:
        """How many bytes of the chunk are before the array's first element; None when it is not in there."""
        at = 0
        while at < len(chunk):
            if self._in_string:
                at = self._passed_string(chunk, at)
                continue
            if not self._depth:
                at = self._passed_blanks(chunk, at)
                continue
            mark = _MARK.search(chunk, at)
            if mark is None:
                return None
            at = mark.end()
            if self._is_array(mark.group()):
                return at
        return None

    def _passed_blanks(self, chunk: bytes, at: int) -> int:
        """After the bracket that opens a document, or at the chunk's end."""
        rest = chunk[at:]
        if self._is_first:
            rest = rest.removeprefix(_BOM)
        begin = len(chunk) - len(rest.lstrip(_BLANKS))
        if begin == len(chunk):
            return begin
        if chunk[begin : begin + 1] != b"{":
            raise ArrayError("it does not begin with {" if self._is_first else "what follows is no object")
        self._is_first = self._has_array = False
        self._depth = self._matched = 1
        self._expects_name = True
        return begin + 1

    def _passed_string(self, chunk: bytes, at: int) -> int:
        """After the string, or at the chunk's end; its text is kept as far as it may be a name."""
        begin = at
        if self._escaped:
            self._escaped, at = False, at + 1
        while at < len(chunk):
            found = _END_OF_STRING.search(chunk, at)
            if found is None:
                at = len(chunk)
            elif found.group() == b'"':
                self._in_string = False
                self._keep(chunk[begin : found.start()])
                self._compare()
                return found.end()
            else:
                at = found.end() + 1
                self._escaped = at > len(chunk)
        self._keep(chunk[begin:])
        return len(chunk)

    def _keep(self, text: bytes) -> None:
        if self._name is None:
            return
        if len(self._name) + len(text) > self._longest:
            self._name = None
        else:
            self._name += text

    def _compare(self) -> None:
        if self._name is None:
            return
        try:
            name = json.loads(b'"%b"' % bytes(self._name), strict=False)
        except ValueError:
            name = None
        self._name, self._expects_name = None, False
        self._is_named = name == self._path[self._matched - 1]

    def _is_array(self, mark: bytes) -> bool:
        """Take the mark into account; True when it opens the array."""
        is_on_path = self._depth == self._matched
        if mark == b'"':
            self._refuse_other("a text")
            self._in_string = True
            self._name = bytearray() if is_on_path and self._expects_name else None
        elif mark in b"{[":
            return self._opened(mark)
        elif mark in b"}]":
            self._closed(mark, is_on_path=is_on_path)
        elif mark == b"," and is_on_path:
            self._refuse_other("a number, true, false or null")
            self._expects_name = True
        return False

    def _opened(self, mark: bytes) -> bool:
        if self._is_named:
            is_last = self._matched == len(self._path)
            if is_last and mark == b"[":
                if self._has_array:
                    raise ArrayError(f"it has {self._names()} twice")
                self._is_named, self._has_array = False, True
                return True
            if is_last or mark == b"[":
                self._refuse_other("an array" if mark == b"[" else "an object")
            self._is_named, self._expects_name = False, True
            self._matched += 1
        self._depth += 1
        return False

    def _closed(self, mark: bytes, *, is_on_path: bool) -> None:
        if is_on_path:
            self._refuse_other("a number, true, false or null")
            if mark == b"]":
                raise ArrayError("it ends with ] where } belongs")
            self._matched -= 1
            self._expects_name = False
        self._depth -= 1
        if not self._depth and not self._has_array:
            raise ArrayError(f"it has no {self._names(len(self._path))}")

    def _refuse_other(self, what: str) -> None:
        """Raise where something has the path's next name that is not what the path goes through."""
        if self._is_named:
            wanted = "an array" if self._matched == len(self._path) else "an object"
            raise ArrayError(f"its {self._names()} is {what} and not {wanted}")

    def _names(self, count: int | None = None) -> str:
        return ".".join(self._path[: self._matched if count is None else count])
