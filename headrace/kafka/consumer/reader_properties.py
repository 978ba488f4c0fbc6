"""librdkafka's properties of a reader, most of them for a bounded memory."""

from collections.abc import Mapping
from typing import Any, Final

_KIB: Final = 1024
_LARGEST_FETCH: Final = 50 * _KIB * _KIB
_DEFAULT_MESSAGE_BYTES: Final = 1_000_000
# A record of 200 bytes with what librdkafka keeps of each beside its bytes, and does not count: the queue
# stops at so many records, too.
_SMALL_RECORD_BYTES: Final = 512


def reader_properties(
    given: Mapping[str, str], group_id: str, budget_bytes: int, isolation_level: str
) -> dict[str, Any]:
    """What nothing overrides. The queue stops at half of the budget, and a fetch adds a quarter at most.

    A batch of records that is larger is fetched nevertheless: Kafka gives at least one.
    """
    message_bytes = int(given.get("message.max.bytes", _DEFAULT_MESSAGE_BYTES))
    fetch_bytes = min(max(budget_bytes // 4, message_bytes), max(_LARGEST_FETCH, message_bytes))
    return {
        # librdkafka wants one; it is not joined.
        "group.id": group_id,
        "isolation.level": isolation_level,
        # An offset that is not there is looked into, never passed over.
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "queued.max.messages.kbytes": max(budget_bytes // 2 // _KIB, 1),
        "queued.min.messages": max(budget_bytes // 2 // _SMALL_RECORD_BYTES, 1),
        "fetch.max.bytes": fetch_bytes,
        "max.partition.fetch.bytes": min(_KIB * _KIB, fetch_bytes),
        # Behind a full queue; a second, the default, would be a pause at every turn.
        "fetch.queue.backoff.ms": 20,
    }
