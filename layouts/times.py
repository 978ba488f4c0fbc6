"""Timestamps of archives as milliseconds since 1970."""

from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from ingest.columns import Column, Numbers
from layouts.arrow import arrow_binary
from layouts.records import NO_TIMESTAMP, Faults

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso_times(texts: Column, faults: Faults) -> Numbers:
    """Milliseconds of ISO 8601 texts (UTC without a zone), NO_TIMESTAMP for a null or a time before 1970.

    Kafka keeps no time before 1970. Other text is a fault (`not_a_timestamp`) of its row.
    """
    if not len(texts):
        return np.zeros(0, np.int64)
    try:
        read = arrow_binary(texts).cast(pa.string()).cast(pa.timestamp("ms", "UTC"))
    except pa.ArrowInvalid:
        return np.array([_time(texts.get(row), row, faults) for row in range(len(texts))], np.int64)
    read = read.cast(pa.int64())
    milliseconds = np.asarray(read.fill_null(NO_TIMESTAMP) if read.null_count else read, np.int64)
    return np.maximum(milliseconds, NO_TIMESTAMP)


def _time(text: bytes | None, row: int, faults: Faults) -> int:
    if text is None:
        return NO_TIMESTAMP
    try:
        moment = datetime.fromisoformat(text.decode())
    except ValueError:
        faults.add(row, "not_a_timestamp", "the timestamp is no ISO 8601")
        return NO_TIMESTAMP
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return max(NO_TIMESTAMP, (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000)
