"""Rows of a frame as Kafka has records: in the order of their offsets, each offset once."""

from typing import Final

import numpy as np

from headrace.model.columns import KafkaRecords
from headrace.model.errors import FrameRefused

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
