"""Keys and values that are JSON without a schema: checked for a whole column at once, and copied."""

import numpy as np

from ingest.columns import NULL_LENGTH, Column
from spark.converted_records import Form
from spark.converters.plain_converters import segment
from spark.converters.segments import RowFaults, Segment
from spark.formats.encoding.json_kinds import JsonKind, compacted, json_kinds, null_texts, nulled


class JsonConverter:
    """JSON texts, each of which fits in a line; the JSON `null` is a null."""

    def __init__(self, what: str) -> None:
        self._what = what

    def convert(self, column: Column, topic: str, faults: RowFaults) -> list[Segment]:
        """The rows that are JSON; others are `not_json`."""
        del topic
        kinds = json_kinds(column)
        good = (kinds != JsonKind.NONE) | (column.lengths == NULL_LENGTH)
        nulls = null_texts(column, kinds)
        if len(nulls):
            column = nulled(column, nulls)
        loose = np.flatnonzero((kinds == JsonKind.LOOSE) & (column.lengths != NULL_LENGTH))
        if len(loose):
            column = compacted(column, loose)
        for row in np.flatnonzero(~good).tolist():
            faults.add(row, "not_json", f"the {self._what} is no JSON text")
        return segment(column, Form.JSON, None if good.all() else np.flatnonzero(good))
