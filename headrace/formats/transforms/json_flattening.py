"""Objects without a schema, flattened: by their own structure, or by the shape that rows of a batch share.

Most rows of a topic have the same members in the same order. For such a shape msgspec reads and writes many
rows at once by two classes, a nested and a flat one, whose leaves are copied as they are written. That a row
has the shape is seen by writing it again: it has to be the same text. Others are taken apart one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from headrace.formats.transforms.step_values import Members, Refused, members_of

# The values of a chunk stay in a core's cache; a shape is not worth its classes for fewer rows.
_CHUNK: Final = 256
_LEAST: Final = 32
# After so many groups of a batch that no shape was of, its rows are taken for too different.
_FAILURES: Final = 8
_KEPT: Final = 128
_DEPTH: Final = 16
_MEMBERS: Final = msgspec.json.Decoder(Members)
_ENCODER: Final = msgspec.json.Encoder()
_OPENING: Final = ord("{")
# What flat text has where a leaf is an object, and seldom elsewhere.
_OBJECT: Final = b'":{'

# The names of an object's members, each with the structure of its own members, None for a leaf.
_Structure = tuple[tuple[str, Any], ...]


def flattened(members: Members, delimiter: str) -> Members:
    """The members with those of objects within in their place; an object without members leaves none."""
    found: Members = {}
    _flatten(members, "", delimiter, found)
    return found


def _flatten(members: Members, prefix: str, delimiter: str, found: Members) -> None:
    for name, member in members.items():
        if _is_object(member):
            _flatten(_MEMBERS.decode(member), prefix + name + delimiter, delimiter, found)
        else:
            found[prefix + name] = member


def _is_object(member: msgspec.Raw) -> bool:
    return bool(memoryview(member)[0] == _OPENING)


class Flattening:
    """Flattens the rows of one batch; `refuse` gets the number of each that is no object."""

    def __init__(self, delimiter: str, refuse: Callable[[int], None]) -> None:
        self._delimiter = delimiter
        self._refuse = refuse
        self._shape: _Shape | None = None
        self._failures = 0

    def flat(self, texts: Sequence[bytes | None]) -> list[bytes | None]:
        """The JSON of each row's flat object; None for a null, and for a row that is refused."""
        found: list[bytes | None] = []
        for begin in range(0, len(texts), _CHUNK):
            chunk = texts[begin : begin + _CHUNK]
            lines = None if self._shape is None else self._shape.lines(chunk)
            found += self._grouped(begin, chunk) if lines is None else lines
        return found

    def _grouped(self, begin: int, texts: Sequence[bytes | None]) -> list[bytes | None]:
        """Rows with the same members together; when all of them have, and one shape, the next ones may."""
        groups: dict[tuple[str, ...], list[tuple[int, bytes, Members]]] = {}
        for row, text in enumerate(texts):
            if text is None:
                continue
            try:
                members = members_of(text)
            except Refused:
                self._refuse(begin + row)
                continue
            groups.setdefault(tuple(members), []).append((row, text, members))
        found: list[bytes | None] = [None] * len(texts)
        shape = None
        for group in groups.values():
            shape, lines = self._group(group)
            for (row, _, _), line in zip(group, lines, strict=True):
                found[row] = line
        self._shape = shape if len(groups) == 1 else None
        return found

    def _group(self, group: Sequence[tuple[int, bytes, Members]]) -> tuple["_Shape | None", Sequence[bytes]]:
        if len(group) >= _LEAST and self._failures < _FAILURES:
            shape = _shape_of(group[0][2], self._delimiter)
            lines = None if shape is None else shape.lines([text for _, text, _ in group])
            if lines is not None:
                return shape, lines
            self._failures += 1
        return None, [msgspec.json.encode(flattened(members, self._delimiter)) for _, _, members in group]


def _shape_of(members: Members, delimiter: str) -> "_Shape | None":
    structure = _structure(members, _DEPTH)
    return None if structure is None else _shape(structure, delimiter)


def _structure(members: Members, depth: int) -> _Structure | None:
    """None where objects are in objects too often: Python's compiler has its limits."""
    if not depth:
        return None
    found: list[tuple[str, Any]] = []
    for name, member in members.items():
        below = _structure(_MEMBERS.decode(member), depth - 1) if _is_object(member) else ()
        if below is None:
            return None
        found.append((name, below if _is_object(member) else None))
    return tuple(found)


class _Shape:
    """Rows of one structure: `nested` reads them, and `flat` writes what `leaves` copies."""

    def __init__(self, structure: _Structure, names: Sequence[str]) -> None:
        nested = _nested(structure)
        self._decoder = msgspec.json.Decoder(list[nested])  # type: ignore[valid-type]  # made here
        self._leaves = _copies(structure, _class(names, [msgspec.Raw] * len(names)))

    def lines(self, texts: Sequence[bytes | None]) -> list[bytes] | None:
        """The flat object of each row; None where one of the rows is null or has another shape."""
        try:
            text = b"[%b]" % b",".join(texts)  # type: ignore[arg-type]  # a null is a TypeError
            rows = self._decoder.decode(text)
        except (TypeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not _is_same(_ENCODER.encode(rows), text):
            return None
        flat = self._leaves(rows)
        found = _ENCODER.encode_lines(flat)
        if _OBJECT in found and any(
            _is_object(leaf) for row in flat for leaf in msgspec.structs.astuple(row)
        ):
            return None
        lines = found.split(b"\n")
        # Behind the last one is nothing; a list that is written in several lines is more than one here.
        return lines[:-1] if len(lines) == len(texts) + 1 else None


def _is_same(written: bytes, text: bytes) -> bool:
    """Whether members and their order are the same, however they are spaced."""
    return written == text or _compact(written) == _compact(text)


def _compact(text: bytes) -> bytes:
    return msgspec.json.format(text, indent=-1)


@lru_cache(maxsize=_KEPT)
def _shape(structure: _Structure, delimiter: str) -> _Shape | None:
    """The shape; None where two leaves become one, there is none, or a name has to be escaped."""
    names = [delimiter.join(path) for path in _paths(structure)]
    if not names:
        return None
    try:
        return _Shape(structure, names)
    except ValueError:
        return None


def _paths(structure: _Structure) -> Iterator[tuple[str, ...]]:
    """The names on the way to each leaf."""
    for name, below in structure:
        if below is None:
            yield (name,)
        else:
            yield from ((name, *path) for path in _paths(below))


def _copies(structure: _Structure, flat: type[msgspec.Struct]) -> Callable[[Any], list[msgspec.Struct]]:
    """What makes flat rows of nested ones. Generated, which halves its time: it is the most of the work."""
    objects, leaves = ["for o in rows"], list[str]()

    def walk(of: str, members: _Structure) -> None:
        for number, (_, below) in enumerate(members):
            if below is None:
                leaves.append(f"{of}.m{number}")
            else:
                objects.append(f"for {of}_{number} in ({of}.m{number},)")
                walk(f"{of}_{number}", below)

    walk("o", structure)
    # Of names that are made here alone.
    made = eval(f"lambda rows: [flat({', '.join(leaves)}) {' '.join(objects)}]", {"flat": flat})  # noqa: S307
    copies: Callable[[Any], list[msgspec.Struct]] = made
    return copies


def _nested(structure: _Structure) -> type[msgspec.Struct]:
    kinds = [msgspec.Raw if below is None else _nested(below) for _, below in structure]
    return _class([name for name, _ in structure], kinds)


def _class(names: Sequence[str], kinds: Sequence[type]) -> type[msgspec.Struct]:
    fields = [f"m{number}" for number in range(len(names))]
    return msgspec.defstruct(
        "Row", list(zip(fields, kinds, strict=True)), rename=dict(zip(fields, names, strict=True)), gc=False
    )
