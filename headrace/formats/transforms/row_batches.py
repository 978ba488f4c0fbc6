"""Batches of rows with fewer rows, and cut where the topic of their records changes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.model.columns import Numbers, picked
from headrace.model.rows import RowBatch


def selected(batch: RowBatch, kept: Numbers) -> RowBatch:
    """The batch with these rows alone, which rise; nothing of the others is left. Bad rows stay."""
    positions, after = batch.positions, batch.after

    def kept_positions(index: int, /) -> Any:
        return positions(int(kept[index])) if index < len(kept) else after

    return replace(
        batch,
        values=picked(batch.values, kept),
        positions=kept_positions,
        keys=None if batch.keys is None else picked(batch.keys, kept),
        headers=None if batch.headers is None else tuple(batch.headers[row] for row in kept.tolist()),
        timestamps_ms=None if batch.timestamps_ms is None else batch.timestamps_ms[kept],
        bad=tuple(replace(bad, index=int(np.searchsorted(kept, bad.index))) for bad in batch.bad),
    )


def by_topic(batch: RowBatch, topics: Sequence[str], *, topic: str) -> Iterator[RowBatch]:
    """The batch in parts whose records have one topic; `topic` where there is no record."""
    if len(set(topics)) < 2:  # noqa: PLR2004  # nothing to cut
        yield replace(batch, topic=topics[0] if topics else topic)
        return
    borders = [0, *(row for row in range(1, len(topics)) if topics[row] != topics[row - 1]), len(topics)]
    for first, behind in pairwise(borders):
        yield replace(_cut(batch, first, behind), topic=topics[first])


def _cut(batch: RowBatch, first: int, behind: int) -> RowBatch:
    """The rows from `first` to before `behind`, with the bad ones before each of them, or after the last."""
    is_last = behind == len(batch)
    following = [bad for bad in batch.bad if bad.index == behind]
    after = batch.after
    if not is_last:
        after = following[0].position if following else batch.positions(behind)
    positions = batch.positions

    def cut_positions(index: int, /) -> Any:
        return positions(first + index) if index < behind - first else after

    rows = slice(first, behind)
    return replace(
        batch,
        values=picked(batch.values, np.arange(first, behind)),
        after=after,
        positions=cut_positions,
        keys=None if batch.keys is None else picked(batch.keys, np.arange(first, behind)),
        headers=None if batch.headers is None else batch.headers[rows],
        timestamps_ms=None if batch.timestamps_ms is None else batch.timestamps_ms[rows],
        bad=tuple(
            replace(bad, index=bad.index - first)
            for bad in batch.bad
            if first <= bad.index < behind or (is_last and bad.index == behind)
        ),
        inexact=batch.inexact if first == 0 else {},
    )
