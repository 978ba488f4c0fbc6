"""librdkafka's properties for a slot's producer: ours under what the configuration says."""

from collections.abc import Mapping
from typing import Any, Final

DEFAULTS: Final[dict[str, str]] = {
    "compression.type": "lz4",
    # Longer than a busy broker takes to answer. Nobody waits for it: a commit sends what is there.
    "linger.ms": "100",
    "batch.num.messages": "50000",
    "batch.size": "1000000",
    # Backpressure is this queue. 64 MiB is half a second at full rate, and a worker has 400 MiB in all.
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "65536",
    # Right after a commit the coordinator still writes its markers, and refuses the next transaction: asked
    # again so soon, not after 100 ms. Each repeat waits twice as long as the one before, up to a second.
    "retry.backoff.ms": "10",
    # A broker that comes back is noticed within a second, not ten.
    "reconnect.backoff.max.ms": "1000",
}
# Only failed deliveries matter; a report for each success costs more than sending it. confluent-kafka takes
# a bool and nothing else here.
_OURS: Final = {"delivery.report.only.error": True}


def producer_properties(given: Mapping[str, str]) -> dict[str, Any]:
    """The properties of a slot's producer, what the configuration gives above our defaults."""
    # Java's and librdkafka's older spellings name the same property; two spellings of one must not meet.
    aliases = {"compression.codec": "compression.type", "queue.buffering.max.ms": "linger.ms"}
    spelled = {aliases.get(name, name) for name in given}
    defaults = {name: value for name, value in DEFAULTS.items() if name not in spelled}
    return {**defaults, **given, **_OURS}
