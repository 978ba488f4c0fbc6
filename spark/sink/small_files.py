"""Notices that objects are small, and says which option makes them larger. Pure."""

from collections import Counter
from typing import Final

from headrace.model.text_formatting import bytes_text
from spark.sink.rotation import RotateReason

# S3 and what reads it pay for each object; below this, requests cost more than bytes.
_SMALL_BYTES: Final = 1_048_576
# Objects that are judged together, so that a quiet hour or a restart is no reason.
_SAMPLE: Final = 100
# A hint does not come more often than this.
_EVERY_MS: Final = 3_600_000

_REMEDIES: Final = {
    RotateReason.RECORDS: "raise rotate.records",
    RotateReason.BYTES: "raise rotate.bytes",
    RotateReason.AGE: "raise rotate.age.ms",
    RotateReason.SPAN: "raise rotate.span.ms",
    RotateReason.SCHEDULE: "raise rotate.schedule.ms",
    RotateReason.NAME: "write a coarser date into file.name.template",
    RotateReason.MAX_AGE: "raise open.object.max.age.ms",
    RotateReason.SCHEMA: "set schema.compatibility, so that a change of schema closes no object",
    RotateReason.GROUP: "set rotate.on.group.change=false",
    RotateReason.OPEN_OBJECTS: "raise max.open.files, or group by a field with fewer values",
}


class SmallFiles:
    """Counts closed objects; by design small ones (of single keys, at a stop) do not count."""

    def __init__(self) -> None:
        self._reasons: Counter[RotateReason] = Counter()
        self._bytes = 0
        self._quiet_until_ms = 0

    def add(self, reason: RotateReason, size: int, now_ms: int) -> str | None:
        """A sentence for a warning when the last hundred objects are small on average; one an hour."""
        if reason not in _REMEDIES:
            return None
        self._reasons[reason] += 1
        self._bytes += size
        count = self._reasons.total()
        if count < _SAMPLE:
            return None
        mean, usual = self._bytes // count, self._reasons.most_common(1)[0][0]
        self._reasons.clear()
        self._bytes = 0
        if mean >= _SMALL_BYTES or now_ms < self._quiet_until_ms:
            return None
        self._quiet_until_ms = now_ms + _EVERY_MS
        return f"objects have {bytes_text(mean)} on average, and most close by {usual}: {_REMEDIES[usual]}"
