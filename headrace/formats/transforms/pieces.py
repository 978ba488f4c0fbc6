"""Records that transforms made different, put together again: in few runs, each in the order of offsets."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.formats.arrow import arrow_binary, column_of_arrow
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.converters.plain_columns import PlainColumn
from headrace.formats.converters.typed_columns import TypedColumn
from headrace.model.columns import Column
from headrace.model.kafka_records import KafkaRecords


def put_together(pieces: Sequence[ConvertedRecords]) -> list[ConvertedRecords]:
    """The records of one run in runs of one topic, one key schema and one value schema.

    Those of different topics come after each other: they go into different objects.
    """
    filled = [piece for piece in pieces if len(piece)]
    if len(filled) < 2:  # noqa: PLR2004  # nothing to put together
        return filled
    kinds: dict[Hashable, list[ConvertedRecords]] = defaultdict(list)
    for piece in filled:
        kinds[piece.records.topic, _kind(piece.key), _kind(piece.value)].append(piece)
    topics: dict[str, list[ConvertedRecords]] = defaultdict(list)
    for same in kinds.values():
        topics[same[0].records.topic].append(_joined(same))
    runs = [run for of_topic in topics.values() for run in in_order(of_topic)]
    return sorted(runs, key=lambda run: run.records.first_offset)


def in_order(pieces: Sequence[ConvertedRecords]) -> list[ConvertedRecords]:
    """Pieces of one topic cut where the order of offsets goes from one to another."""
    if len(pieces) == 1:
        return list(pieces)
    owner = np.concatenate([np.full(len(piece), number) for number, piece in enumerate(pieces)])
    place = np.concatenate([np.arange(len(piece)) for piece in pieces])
    order = np.argsort(np.concatenate([piece.records.offsets for piece in pieces]), kind="stable")
    owner, place = owner[order], place[order]
    borders = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return [
        pieces[int(owner[first])].slice(int(place[first]), int(place[behind - 1]) + 1)
        for first, behind in pairwise(borders)
    ]


def _kind(column: ConvertedColumn) -> Hashable:
    if isinstance(column, PlainColumn):
        return column.form
    if isinstance(column, TypedColumn) and column.has_array and column.schema.arrow is not None:
        return str(column.schema.arrow), column.schema.avro, column.schema.version, column.data() is None
    # Nothing to put together by: it stays by itself.
    return id(column)


def _joined(pieces: list[ConvertedRecords]) -> ConvertedRecords:
    """Pieces of one kind as one, in the order of offsets."""
    if len(pieces) == 1:
        return pieces[0]
    whole = ConvertedRecords(
        records=_records([piece.records for piece in pieces]),
        key=_columns([piece.key for piece in pieces]),
        value=_columns([piece.value for piece in pieces]),
    )
    order = np.argsort(whole.records.offsets, kind="stable")
    return whole.take(order)


def _records(parts: list[KafkaRecords]) -> KafkaRecords:
    has_headers = any(part.headers is not None for part in parts)
    headers = [each for part in parts for each in (part.headers or [()] * len(part))] if has_headers else None
    return replace(
        parts[0],
        offsets=np.concatenate([part.offsets for part in parts]),
        timestamps_ms=np.concatenate([part.timestamps_ms for part in parts]),
        timestamp_types=np.concatenate([part.timestamp_types for part in parts]),
        keys=_bytes([part.keys for part in parts]),
        values=_bytes([part.values for part in parts]),
        headers=headers,
    )


def _columns(parts: list[ConvertedColumn]) -> ConvertedColumn:
    first = parts[0]
    if isinstance(first, TypedColumn):
        array: Any = pa.concat_arrays([part.arrow() for part in parts])
        data = [part.data() for part in parts]
        known = [each for each in data if each is not None]
        return TypedColumn(
            first.schema,
            array=array,
            data=_bytes(known) if len(known) == len(data) else None,
            style=first.style,
        )
    form: Form = first.form
    return PlainColumn(_bytes([part.texts() for part in parts]), form)


def _bytes(parts: list[Column]) -> Column:
    """Columns one after the other; over their buffer where they share it."""
    first = parts[0]
    if all(part.buffer is first.buffer for part in parts):
        starts = np.concatenate([part.starts for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        return Column(buffer=first.buffer, starts=starts, lengths=lengths)
    return column_of_arrow(pa.concat_arrays([arrow_binary(part) for part in parts]))
