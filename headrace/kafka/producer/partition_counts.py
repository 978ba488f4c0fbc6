"""What a producer knows of the topics it writes to."""

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.kafka.kafka_errors import translate
from headrace.model.errors import InvalidObject, TopicMissing

_ASK_SECONDS: Final = 10.0
# As often as librdkafka asks for itself: partitions may be added while a producer lives, which is for days.
_FRESH_SECONDS: Final = 300.0


class PartitionCounts:
    """Partition counts by topic, asked again every five minutes; a topic that is not there each time."""

    def __init__(self, producer: Producer, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._producer = producer
        self._clock = clock
        self._partitions: dict[str, tuple[int, float]] = {}

    def partitions(self, topic: str, *, at_least: int = 0) -> int:
        """How many partitions the topic has; TopicMissing, or what the broker says otherwise. Blocks.

        Fewer than `at_least` is never said from memory.
        """
        count, asked_at = self._partitions.get(topic, (0, -_FRESH_SECONDS))
        if self._clock() - asked_at < _FRESH_SECONDS and count >= at_least:
            return count
        return self.ask(topic)

    def ask(self, topic: str) -> int:
        """The same, asked afresh: partitions may have been added."""
        try:
            found = self._producer.list_topics(topic, timeout=_ASK_SECONDS).topics[topic]
        except KafkaException as error:
            raise translate(error, what=f"metadata of topic {topic!r}") from error
        refusal = found.error
        if refusal is not None:
            if refusal.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing(
                    f"The topic {topic!r} does not exist. Create it, or set topic.creation.default.*."
                )
            if refusal.code() == KafkaError.TOPIC_EXCEPTION:
                raise InvalidObject(
                    f"Kafka takes no topic of the name {topic!r}. Set topic, or correct file.name.template.",
                    reason="invalid_topic",
                )
            raise translate(refusal, what=f"metadata of topic {topic!r}")
        count = len(found.partitions)
        self._partitions[topic] = (count, self._clock())
        return count
