"""Rows of a frame as Kafka has records: in the order of their offsets, each offset once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.columns import KafkaRecords
from headrace.model.errors import FrameRefused

_PLACE: Final = ("topic", "partition", "offset")
_ROWS: Final = 10_000
_BYTES: Final = 64 * 1024 * 1024
OUT_OF_ORDER: Final = (
    "Rows of {}-{} do not come in the order of offsets, or come twice: write "
    'df.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset").'
)
_TWICE: Final = (
    "Rows of {}-{} come twice, with offset {}: give each once, as "
    'dropDuplicates(["topic", "partition", "offset"]) does.'
)


class RowOrder:
    """Looks at the rows of one task as they come."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def refuse_disorder(self, records: KafkaRecords) -> None:
        """FrameRefused unless each row has a higher offset than the one before it in its topic-partition.

        No order helps rows that come twice, and no archive may have them: a restore would write both.
        """
        place = records.topic, records.partition
        before = np.concatenate(([self._last.get(place, -1)], records.offsets[:-1]))
        wrong = np.flatnonzero(records.offsets <= before)
        if len(wrong):
            if bool((records.offsets[wrong] < before[wrong]).any()):
                raise FrameRefused(OUT_OF_ORDER.format(*place))
            raise FrameRefused(_TWICE.format(*place, int(before[wrong[0]])))
        self._last[place] = records.last_offset


def in_order(batches: Iterable[Any]) -> Iterator[Any]:
    """The rows sorted by topic, partition and offset, held in memory: Spark sorts no stream.

    Rows that are in order are not copied. Of others some are put together at a time: a column of bytes has
    offsets of 32 bits, so no array holds 2 GiB of values.
    """
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    places = pa.Table.from_batches([batch.select(_PLACE) for batch in held])
    order = pc.sort_indices(places, sort_keys=[(name, "ascending") for name in _PLACE]).to_numpy()
    if bool((order[1:] > order[:-1]).all()):
        for batch in held:
            yield from (batch.slice(begin, _ROWS) for begin in range(0, batch.num_rows, _ROWS))
        return
    row_bytes = max(1, sum(batch.nbytes for batch in held) // len(order))
    count = min(_ROWS, max(1, _BYTES // row_bytes))
    firsts = np.cumsum([0, *(batch.num_rows for batch in held)])
    for begin in range(0, len(order), count):
        yield from _put_together(held, firsts, order[begin : begin + count].astype(np.int64))


def _put_together(held: Sequence[Any], firsts: Any, rows: Any) -> Iterator[Any]:
    """These rows in this order; in several batches where they are larger than most."""
    sources = np.searchsorted(firsts, rows, side="right") - 1
    taken = [held[at].take(pa.array((rows - firsts[at])[sources == at])) for at in np.unique(sources)]
    if len(rows) > 1 and sum(each.nbytes for each in taken) > 2 * _BYTES:
        half = len(rows) // 2
        del taken
        yield from _put_together(held, firsts, rows[:half])
        yield from _put_together(held, firsts, rows[half:])
        return
    where = np.empty(len(rows), np.int64)
    where[np.argsort(sources, kind="stable")] = np.arange(len(rows))
    yield from pa.Table.from_batches(taken).combine_chunks().take(pa.array(where)).to_batches()
