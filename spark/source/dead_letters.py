"""What becomes of bad rows: one log line now and then, and dead letters."""

import functools
import time
from typing import Final

import msgspec
import structlog

from headrace.model.columns import TRANSFORM_REFUSED, BadRow, Header, RowBatch, Stage
from headrace.model.positions import Position, position_as_dict
from headrace.model.slot_protocol import Split
from spark.source.source_work import TaskSettings

REFUSED: Final = "refused"
"""The reason of a row whose record the broker does not take."""

log = structlog.get_logger(__name__)

_LOG_SECONDS: Final = 10.0
# What a header and its length fields take of a record besides its bytes, at most.
_HEADER_BYTES: Final = 10
# What a record and its batch take besides key, value and headers.
_BATCH_BYTES: Final = 128


class BadRowLog:
    """One WARN for a bad row, at most one in ten seconds, with its position and never its content."""

    def __init__(self) -> None:
        self._silent_until = 0.0
        self._held_back = 0

    def note(self, split: Split, bad: BadRow, *, becomes: str) -> None:
        """Log this bad row, or count it towards the next line."""
        now = time.monotonic()
        if now < self._silent_until:
            self._held_back += 1
            return
        log.warning(
            "bad_record",
            object=split.object.id.url,
            position=position_as_dict(bad.position),
            reason=bad.reason,
            detail=bad.message,
            becomes=becomes,
            more_since_last=self._held_back,
        )
        self._silent_until, self._held_back = now + _LOG_SECONDS, 0


@functools.cache
def bad_row_log(name: str) -> BadRowLog:  # noqa: ARG001 - the key of its cache
    """The process's one for a source: batches are short, and a log of each would say its first bad row."""
    return BadRowLog()


def dead_letter(
    split: Split, bad: BadRow, *, settings: TaskSettings, slot: int, topic_max_bytes: int | None
) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Key, value and headers of the dead letter for a bad row (docs/errors.md), cut so that it fits.

    Raw bytes as they were, of a tombstone its key and a null; empty, with `headrace.size`, when they could
    not be cut out or are too large.
    """
    identity = split.object.id
    headers: list[Header] = [
        ("__connect.errors.topic", split.route.topic.encode()),
        (
            "__connect.errors.partition",
            b"" if split.route.partition is None else b"%d" % split.route.partition,
        ),
        ("__connect.errors.connector.name", settings.name.encode()),
        ("__connect.errors.task.id", b"%d" % slot),
        ("__connect.errors.stage", stage_of(bad).encode()),
        # A value that consumers know: it stays, wherever the module is.
        ("__connect.errors.class.name", b"spark.formats." + settings.format.input_format.value.encode()),
        ("__connect.errors.exception.class.name", bad.reason.encode()),
        ("__connect.errors.exception.message", bad.message.encode()),
        ("headrace.bucket", identity.bucket.encode()),
        ("headrace.key", identity.key.encode()),
        ("headrace.etag", identity.etag.encode()),
        ("headrace.version_id", (split.object.version_id or "").encode()),
        ("headrace.position", msgspec.json.encode(position_as_dict(bad.position))),
    ]
    taken = sum(len(name) + len(value or b"") + _HEADER_BYTES for name, value in headers)
    limits = [settings.format.record_max_bytes]
    if topic_max_bytes is not None:
        limits.append(topic_max_bytes - _BATCH_BYTES)
    room = min(limits) - taken
    is_there = bad.raw is not None or bad.is_null
    if is_there and len(bad.raw or b"") + len(bad.raw_key or b"") <= room:
        return bad.raw_key, bad.raw, headers
    return None, b"", [*headers, ("headrace.size", b"%d" % bad.size)]


def stage_of(bad: BadRow) -> Stage:
    """What refused the row."""
    return Stage.TRANSFORMATION if bad.reason == TRANSFORM_REFUSED else Stage.VALUE_CONVERTER


def refused_row(rows: RowBatch, row: int, after: Position | None, why: str) -> BadRow:
    """A row of a batch as a bad one, since the broker refuses it: `why` is a clause."""
    raw = rows.values.get(row)
    return BadRow(
        index=row,
        position=rows.positions(row),
        after=rows.positions(row + 1) if after is None else after,
        reason=REFUSED,
        message=f"the broker refuses this record{why}",
        raw=raw,
        raw_key=None if rows.keys is None else rows.keys.get(row),
        is_null=raw is None,
        size=len(raw or b""),
    )
