"""Where rows have to have been, as the name of their object says: rows of another place are no records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from headrace.formats.record_columns import NO_OFFSET, Faults
from headrace.model.columns import Numbers
from headrace.names.archive_names import ArchiveName, NamePart

_REASON: Final = "other_place"
_NULL: Final = b"null"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlace:
    """What a name says for certain of its rows; None is anything. An object that was renamed does not fit."""

    topic: str | None = None
    partition: int | None = None
    first: int | None = None
    last: int | None = None

    @classmethod
    def of(cls, name: ArchiveName) -> "OwnPlace":
        """The place that the name says, as far as it is certain."""
        has_offsets = name.is_exact(NamePart.OFFSET)
        return cls(
            topic=name.topic if name.is_exact(NamePart.TOPIC) else None,
            partition=name.partition if name.is_exact(NamePart.PARTITION) else None,
            first=name.start_offset if has_offsets else None,
            last=name.last_offset if has_offsets else None,
        )

    def checked_offsets(self, offsets: Numbers | None, faults: Faults) -> Numbers | None:
        """The offsets; one before the object's first or after its last one is a fault of its row."""
        if offsets is None or (self.first is None and self.last is None) or not len(offsets):
            return offsets
        first = 0 if self.first is None else self.first
        last = np.iinfo(np.int64).max if self.last is None else self.last
        outside = (offsets != NO_OFFSET) & ((offsets < first) | (offsets > last))
        for row in np.flatnonzero(outside).tolist():
            faults.add(row, _REASON, _said("offset", self._range()))
        return offsets

    def check_texts(
        self, topics: Sequence[msgspec.Raw], partitions: Sequence[msgspec.Raw], faults: Faults
    ) -> None:
        """Rows of JSON with another topic or partition are faults; what a row does not say is no fault."""
        if self.topic is not None:
            _check_texts(topics, b'"%s"' % self.topic.encode(), "topic", faults)
        if self.partition is not None:
            _check_texts(partitions, b"%d" % self.partition, "partition", faults)

    def check_arrays(self, topics: Any, partitions: Any, faults: Faults) -> None:
        """The same of Arrow arrays, None where there are none."""
        for what, array, own in (("topic", topics, self.topic), ("partition", partitions, self.partition)):
            if array is None or own is None:
                continue
            differ = pc.fill_null(pc.not_equal(array, own), fill_value=False)
            for row in np.flatnonzero(differ.to_numpy(zero_copy_only=False)).tolist():
                faults.add(row, _REASON, _said(what, str(own)))

    def _range(self) -> str:
        return f"{'' if self.first is None else self.first}..{'' if self.last is None else self.last}"


ANYWHERE: Final = OwnPlace()


def _check_texts(texts: Sequence[msgspec.Raw], own: bytes, what: str, faults: Faults) -> None:
    expected = msgspec.Raw(own)
    if texts.count(expected) == len(texts):
        return
    for row, text in enumerate(texts):
        if text != expected and bytes(memoryview(text)) != _NULL:
            faults.add(row, _REASON, _said(what, own.decode()))


def _said(what: str, name: str) -> str:
    # What the row says is content, and is not shown.
    return f"the row's {what} is not that of the object's name ({name}); was the object renamed?"
