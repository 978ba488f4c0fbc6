"""The output topics: whether they are there, how many partitions they have, and how large a record may be."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.kafka_clients import Properties
from headrace.kafka.ledger_marks import Holds, LedgerMarks
from headrace.model.errors import AccessDenied, InvalidConfiguration, TopicMissing

_log = structlog.get_logger(__name__)

_FRESH_SECONDS: Final = 30.0
# A missing topic may be made at any moment; a template can name many that are not there.
_MISSING_FRESH_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopic:
    """An output topic as the brokers describe it. `max_record_bytes` bounds a batch of one record.

    `is_ledger`: it holds what Headrace or Kafka Connect keep of connectors; nothing may be written into it.
    """

    name: str
    partitions: int
    max_record_bytes: int
    is_ledger: bool = False

    @property
    def ledger_sentence(self) -> str:
        """What to say where it is a ledger."""
        return (
            f"The topic {self.name!r} holds what Headrace or Kafka Connect keep of their connectors: records "
            "written into it would be taken for theirs. Name another topic, or map it with restore.topic.map."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """`topic.creation.default.*`: how missing topics are made."""

    partitions: int
    replication_factor: int


class OutputTopics:
    """What is known of the output topics, for half a minute each. Thread-safe; every question may block.

    With `creation` a missing topic is made when it is first asked for; without, it is TopicMissing, with the
    options that would have it made where they are for the connector (`may_create`).
    """

    def __init__(
        self, properties: Properties, *, creation: TopicCreation | None = None, may_create: bool = True
    ) -> None:
        self._may_create = may_create
        self._admin = KafkaAdmin(properties)
        self._marks = LedgerMarks(properties)
        self._creation = creation
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, OutputTopic | TopicMissing]] = {}

    def get(self, name: str) -> OutputTopic:
        """The topic; TopicMissing when it is not there, Unavailable and AccessDenied from the brokers."""
        with self._lock:
            until, found = self._known.get(name, (0.0, None))
            if found is None or time.monotonic() > until:
                found = self._asked(name)
                fresh = _MISSING_FRESH_SECONDS if isinstance(found, TopicMissing) else _FRESH_SECONDS
                self._known[name] = (time.monotonic() + fresh, found)
        if isinstance(found, TopicMissing):
            raise TopicMissing(str(found))
        return found

    def require(self, names: Iterable[str]) -> list[OutputTopic]:
        """All of these topics, at start; one TopicMissing that names every missing one."""
        found, missing = [], []
        for name in names:
            try:
                found.append(self.get(name))
            except TopicMissing:
                missing.append(name)
        if missing:
            raise TopicMissing(_sentence(missing, may_create=self._may_create))
        for topic in found:
            if topic.is_ledger:
                raise InvalidConfiguration(topic.ledger_sentence)
        return found

    def forget(self, name: str) -> None:
        """Ask again at the next question: a task has found that the topic is not there."""
        with self._lock:
            self._known.pop(name, None)

    def _asked(self, name: str) -> OutputTopic | TopicMissing:
        try:
            return self._described(name)
        except TopicMissing:
            if self._creation is None:
                return TopicMissing(_sentence([name], may_create=self._may_create))
        made = self._admin.create_topic(
            name,
            partitions=self._creation.partitions,
            replication_factor=self._creation.replication_factor,
        )
        if made:
            _log.info("topic_created", topic=name, partitions=self._creation.partitions)
        # The controller has made the topic before every broker knows it.
        settled: Retrying = Retrying(
            retry=retry_if_exception_type(TopicMissing),
            stop=stop_after_delay(10),
            wait=wait_fixed(0.1),
            reraise=True,
        )
        return settled(self._described, name)

    def _described(self, name: str) -> OutputTopic:
        partitions = self._admin.partition_count(name)
        configuration = self._admin.topic_configuration(name)
        # In force, so that it is the brokers' message.max.bytes where the topic sets none.
        return OutputTopic(
            name=name,
            partitions=partitions,
            max_record_bytes=int(configuration["max.message.bytes"]),
            is_ledger="compact" in configuration["cleanup.policy"] and self._holds_ledger(name, partitions),
        )

    def _holds_ledger(self, name: str, partitions: int) -> bool:
        if partitions != 1:
            return False
        try:
            ranges = self._admin.offset_ranges([(name, 0)])
            found = self._marks.holds({name: (self._admin.topic_id(name), 1)}, ranges)
        except AccessDenied:
            # It may be written and not be read.
            return False
        return found[name] is Holds.LEDGER


def _sentence(names: list[str], *, may_create: bool) -> str:
    quoted = ", ".join(repr(name) for name in sorted(names))
    if len(names) == 1:
        what, object_ = f"Topic {quoted} does not exist.", "it"
    else:
        what, object_ = f"Topics {quoted} do not exist.", "them"
    by_option = (
        ", or set topic.creation.default.partitions and topic.creation.default.replication.factor"
        if may_create
        else ""
    )
    setup = "`headrace setup CONFIG` makes those that the configuration names"
    return f"{what} Create {object_} ({setup}){by_option}."
