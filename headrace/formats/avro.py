"""Avro object container files: the data of each block in turn, as JSON or as their own bytes."""

from collections.abc import Iterator
from typing import Final

from headrace.formats.avro_batches import BATCH_ROWS, BlockReader
from headrace.formats.avro_container import (
    SYNC_BYTES,
    Block,
    BlockTooLargeError,
    Bytes,
    ContainerError,
    Header,
    NotAvroError,
    decompress,
    read_blocks,
    read_header,
    too_large,
)
from headrace.formats.avro_schema import Node, SchemaError, all_nodes, minimal_size, parse_schema
from headrace.formats.compression import UnsupportedError, plain_stream, refuse_unsupported, stored_codec
from headrace.formats.connect.from_avro import NUMBERS
from headrace.formats.records.decode_options import DecodeOptions
from headrace.formats.records.key_headers_timestamp import FieldKind
from headrace.formats.records.record_builder import RecordBuilder
from headrace.formats.records.registry import has_own_schema, registry_prefix
from headrace.model.columns import RowBatch
from headrace.model.errors import HeadraceError, InvalidObject, ObjectCorrupt
from headrace.model.objects import ByteSource
from headrace.model.positions import BlockPosition, Position

# Data that take no bytes, such as null, can be claimed in any number; more than this is no honest block.
_EMPTY_DATA_MAX: Final = 10_000_000

_SEARCH_BYTES: Final = 256 * 1024
_HEADER_STEP_BYTES: Final = 64 * 1024


def decode(
    source: ByteSource,
    start: Position | None,
    *,
    options: DecodeOptions,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[RowBatch]:
    """The data of the object from `start` on; of a split those of blocks that begin in [begin, end).

    Positions are of the decompressed file. Blocks on reads. Raises ObjectCorrupt after the last row before
    the damage, InvalidObject for a block above `decode.unit.max.bytes` and for data that are nested too deep.
    """
    if not isinstance(start, BlockPosition | None):
        raise ObjectCorrupt(f"{source.name}: the position {start} is not one of an Avro object.")
    try:
        header, stream = _opened(source, start.block if start is not None else begin or 0, begin, end)
        node = parse_schema(header.schema)
        reader = BlockReader(
            node,
            options,
            RecordBuilder.of(options, lambda path: _kind_of(node, path), avro=header.schema.decode()),
            name=source.name,
            prefix=registry_prefix(options, header.schema),
            described=_described(header.schema) if has_own_schema(options.format) else None,
        )
        limit = options.format.decode_unit_max_bytes
        blocks = _contents(
            read_blocks(stream, header, name=source.name, unit_max_bytes=limit),
            header,
            node,
            source.name,
            limit,
        )
        yield from _batches(blocks, reader, start.record if start is not None else 0)
    except (ValueError, OverflowError) as error:  # of ours, or one that a library has for these bytes alone
        if isinstance(error, SchemaError) and not error.is_torn:
            raise InvalidObject(
                f"{source.name}: the Avro header has an invalid schema: {error}. Write the object with a "
                "schema that Avro allows.",
                reason="invalid_schema",
            ) from error
        raise _damaged(source, error) from error


def _described(schema: bytes) -> Node | None:
    """The schema as Connect has it, whose JSON shows other numbers; None where it does not."""
    found = parse_schema(schema)
    others = [node for node in all_nodes(found) if node.logical in NUMBERS]
    for node in others:
        node.logical = None
    return found if others else None


def _damaged(source: ByteSource, error: Exception) -> ObjectCorrupt:
    """What an operator reads: of one that is no Avro at all the option is as likely to be wrong."""
    if isinstance(error, NotAvroError):
        return ObjectCorrupt(
            f"{source.name}: this is no Avro object, or its beginning is missing: {error}. Upload it again, "
            "or correct input.format."
        )
    return ObjectCorrupt(f"{source.name}: the Avro object is damaged: {str(error)[:300]}. Upload it again.")


def _opened(source: ByteSource, first: int, begin: int | None, end: int | None) -> tuple[Header, Bytes]:
    """The header, and the stream from the block at `first` (or the first one) on."""
    if first == 0 and begin is None:
        stream = Bytes(plain_stream(source), 0)
        return read_header(stream), stream
    # Far into the object the header alone is fetched first; what is cut is not compressed as a whole.
    packed = begin is None and stored_codec(source) is not None
    header = read_header(Bytes(plain_stream(source) if packed else _ranges(source), 0))
    first = max(first, header.length)
    if begin is None:
        return header, Bytes(plain_stream(source, first), first)
    return header, Bytes(source.stream(first, end) if end is None or first < end else iter(()), first)


def _ranges(source: ByteSource) -> Iterator[bytes]:
    """The object in small ranged reads, each made when it is wanted."""
    for at in range(0, source.size, _HEADER_STEP_BYTES):
        part = source.read_at(at, _HEADER_STEP_BYTES)
        if not part:
            return  # a member of an archive that is compressed by itself says no size
        yield part


def cuts(source: ByteSource, splits: int, *, options: DecodeOptions) -> tuple[int, ...] | None:
    """Beginnings of blocks at which the object can be cut, both ends of the object included.

    None when it is compressed as a whole or has too few blocks. A sync marker counts only where a block
    follows that ends in one: data may hold the marker's bytes.
    """
    refuse_unsupported(source)
    if stored_codec(source) is not None:
        return None
    try:
        header = read_header(Bytes(_ranges(source), 0))
    except ContainerError as error:
        raise _damaged(source, error) from error
    marks = {0, source.size}
    for split in range(1, splits):
        target = max(header.length + 1, source.size * split // splits)
        found = _block_from(source, header, target, options.format.decode_unit_max_bytes)
        if found is not None:
            marks.add(found)
    return tuple(sorted(marks)) if len(marks) > 2 else None  # noqa: PLR2004  # two ends and a cut between


def _block_from(source: ByteSource, header: Header, target: int, limit: int) -> int | None:
    """Where the first block at or after `target` begins, or None after the last one."""
    at = target - SYNC_BYTES
    while at < min(source.size, target + limit + _SEARCH_BYTES):
        window = source.read_at(at, _SEARCH_BYTES)
        found = window.find(header.sync)
        if found < 0:
            at += max(len(window) - SYNC_BYTES + 1, 1)
            continue
        offset = at + found + SYNC_BYTES
        if offset < source.size and _is_block(source, header, offset):
            return offset
        at += found + 1
    return None


def _is_block(source: ByteSource, header: Header, offset: int) -> bool:
    stream = Bytes(iter([source.read_at(offset, 2 * 10)]), offset)
    try:
        count, size = stream.long(), stream.long()
    except ContainerError:
        return False
    behind = stream.offset + size
    return (
        count >= 0
        and 0 <= size <= source.size - stream.offset
        and source.read_at(behind, SYNC_BYTES) == header.sync
    )


def _contents(
    blocks: Iterator[Block], header: Header, node: Node, name: str, limit: int
) -> Iterator[tuple[Block, bytes]]:
    """Blocks with their content, each held against what its count claims."""
    least = minimal_size(node)
    for block in blocks:
        try:
            content = decompress(header.codec, block.stored, limit)
        except BlockTooLargeError as error:
            raise too_large(name, block.offset, limit) from error
        except UnsupportedError as error:
            raise InvalidObject(
                f"{name}: the Avro block at byte {block.offset} cannot be read: {error}", reason="unsupported"
            ) from error
        except KeyError:
            raise InvalidObject(
                f"{name}: the Avro codec {header.codec[:40]!r} is not known.", reason="unsupported"
            ) from None
        if block.count * least > len(content) or (least == 0 and block.count > _EMPTY_DATA_MAX):
            raise ContainerError(
                f"the block at byte {block.offset} claims {block.count} data, more than it holds"
            )
        yield block, content


def _batches(blocks: Iterator[tuple[Block, bytes]], reader: BlockReader, skip: int) -> Iterator[RowBatch]:
    """Rows of the blocks, small ones together; what came before an error is given out first."""
    held: list[tuple[Block, bytes]] = []
    rows = size = 0
    try:
        for block, content in blocks:
            held.append((block, content))
            rows += block.count
            size += len(content)
            if rows >= BATCH_ROWS or size >= reader.joined_bytes:
                ready, held, rows, size = held, [], 0, 0
                yield from reader.read(ready, skip)
                skip = 0
    except (ContainerError, HeadraceError):
        if held:
            yield from reader.read(held, skip)
        raise
    if held:
        yield from reader.read(held, skip)


def _kind_of(node: Node, path: tuple[str, ...]) -> FieldKind:
    """What the field at `path` holds, looked for through lists and maps."""
    for name in path:
        below = dict(_content(node).fields).get(name)
        if below is None:
            return FieldKind.OTHER
        node = below
    found, own = _content(node), node.nullable or node
    if found.kind in ("bytes", "fixed") and found.logical is None:
        return FieldKind.BYTES if own is found else FieldKind.LISTED_BYTES
    if found.kind == "record" and own is found:
        return FieldKind.RECORD
    return _KINDS.get(found.logical or "", FieldKind.OTHER)


_KINDS: Final = {
    "date": FieldKind.DAYS,
    "time-millis": FieldKind.TIME_OF_DAY,
    "time-micros": FieldKind.TIME_OF_DAY,
}


def _content(node: Node) -> Node:
    """The node itself, or what is in it where it is optional, a list or a map."""
    while node.nullable is not None or node.items is not None:
        node = node.nullable or node.content
    return node
