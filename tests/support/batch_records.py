"""Batches of rows as tuples that can be compared."""

from typing import Any

from headrace.model.columns import RowBatch

Record = tuple[Any, ...]


def records_of(batches: list[RowBatch]) -> list[Record]:
    """Key, value, headers and time of each row, the bad ones left out."""
    return [
        (
            None if batch.keys is None else batch.keys.get(row),
            batch.values.get(row),
            () if batch.headers is None else batch.headers[row],
            -1 if batch.timestamps_ms is None else int(batch.timestamps_ms[row]),
        )
        for batch in batches
        for row in range(len(batch))
    ]
