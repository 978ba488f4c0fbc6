"""What a producer knows of the topics it writes to."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from ingest.errors import TopicMissing
from ingest.kafka.errors import translate

_ASK_SECONDS: Final = 10.0


class Topics:
    """Partition counts by topic, asked once; a topic that is not there is asked for each time."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._partitions: dict[str, int] = {}

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has; TopicMissing, or what the broker says otherwise. Blocks."""
        known = self._partitions.get(topic)
        return self.ask(topic) if known is None else known

    def ask(self, topic: str) -> int:
        """The same, asked anew: partitions may have been added."""
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
            raise translate(refusal, what=f"metadata of topic {topic!r}")
        self._partitions[topic] = len(found.partitions)
        return self._partitions[topic]
