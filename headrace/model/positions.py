"""Where work on an object continues: always *after* the last row accounted for, never within one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model.fast_pickle import fast_pickle
from headrace.model.text_formatting import printable


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class BytePosition:
    """JSON Lines, CSV, text and bytes: the byte, of the decompressed stream, where the next row begins."""

    byte: int = 0


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class ElementPosition:
    """JSON: number of the array's next element, from 0, and the byte of the decompressed stream it is at."""

    element: int = 0
    byte: int = 0


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class BlockPosition:
    """Avro: the file offset at which the next block begins, and the record within that block."""

    block: int = 0
    record: int = 0


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class RowPosition:
    """Parquet: the row group, and the row within it."""

    group: int = 0
    row: int = 0


PlainPosition = BytePosition | ElementPosition | BlockPosition | RowPosition


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class JoinedPosition:
    """An object that is read with others: where its own rows continue, how many of them are before that.

    `values` None is the object's beginning. `tombstones` counts those merged between the rows before.
    """

    values: PlainPosition | None
    row: int
    tombstones: int = 0


@fast_pickle
@dataclass(frozen=True, slots=True, order=True)
class MemberPosition:
    """Zip and tar: the entry, from 0, the byte of its header, its name, and where in it work continues.

    The byte is one of the object, of a tar that is compressed one of its decompressed stream.
    """

    entry: int
    header: int
    member: str
    within: PlainPosition


Position = PlainPosition | JoinedPosition | MemberPosition


def position_as_dict(position: Position) -> dict[str, Any]:
    """The JSON shape of a position in the ledger (docs/ledger.md)."""
    match position:
        case JoinedPosition(values, row, tombstones):
            return {
                "values": None if values is None else position_as_dict(values),
                "row": row,
                "tombstones": tombstones,
            }
        case MemberPosition(entry, header, member, within):
            return {"member": member, "entry": entry, "header": header, **position_as_dict(within)}
        case BytePosition(byte):
            return {"byte": byte}
        case ElementPosition(element, byte):
            return {"element": element, "byte": byte}
        case BlockPosition(block, record):
            return {"block": block, "record": record}
        case RowPosition(group, row):
            return {"group": group, "row": row}


def position_from_dict(shape: Mapping[str, object]) -> Position:
    """The position that `position_as_dict` gave; ValueError for any other shape.

    Keys next to the known ones are left alone: the hash of the options travels in the same JSON object.
    """
    if "values" in shape:
        return _joined_from_dict(shape)
    if "entry" in shape:
        return _member_from_dict(shape)
    return _plain_from_dict(shape)


def _joined_from_dict(shape: Mapping[str, object]) -> JoinedPosition:
    values, row, tombstones = shape["values"], shape.get("row"), shape.get("tombstones")
    if type(row) is int and type(tombstones) is int and min(row, tombstones) >= 0:
        if values is None:
            return JoinedPosition(None, row, tombstones)
        if isinstance(values, Mapping):
            return JoinedPosition(_plain_from_dict(values), row, tombstones)
    raise ValueError(f"not a position: {dict(shape)!r}")


def _member_from_dict(shape: Mapping[str, object]) -> MemberPosition:
    entry, header, member = shape["entry"], shape.get("header"), shape.get("member")
    if type(entry) is int and type(header) is int and min(entry, header) >= 0 and isinstance(member, str):
        return MemberPosition(entry, header, member, _plain_from_dict(shape))
    raise ValueError(f"not a position: {dict(shape)!r}")


def _plain_from_dict(shape: Mapping[str, object]) -> PlainPosition:
    for kind, names in (
        (ElementPosition, ("element", "byte")),  # before what has one of the two
        (BytePosition, ("byte",)),
        (BlockPosition, ("block", "record")),
        (RowPosition, ("group", "row")),
    ):
        if all(name in shape for name in names):
            numbers = [shape[name] for name in names]
            if all(type(number) is int and number >= 0 for number in numbers):
                return kind(*numbers)  # type: ignore[arg-type]  # just checked: whole numbers
    raise ValueError(f"not a position: {dict(shape)!r}")


def position_text(position: Position | None) -> str:
    """The place for a person who opens the object; numbers count from 0, as in the ledger."""
    match position:
        case None:
            return "the beginning"
        case JoinedPosition(values, row):
            return f"row {row:,}, {position_text(values)}"
        case MemberPosition(_, _, member, within):
            return f"{_plain_text(within)} of the member {printable(member)}"
        case _:
            return _plain_text(position)


def _plain_text(position: PlainPosition) -> str:
    match position:
        case BytePosition(byte):
            return f"byte {byte:,}"
        case ElementPosition(element, byte):
            return f"element {element:,}, byte {byte:,}"
        case BlockPosition(block, record):
            return f"record {record:,} of the block at byte {block:,}"
        case RowPosition(group, row):
            return f"row {row:,} of row group {group:,}"
