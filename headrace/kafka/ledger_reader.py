"""The ledger as those see it who do not lead: commands, the worker's configuration, reports of a standby."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, Self

from headrace.kafka.admin import CALL_SECONDS, KafkaAdmin
from headrace.kafka.cache_files import LastRead, find_cache_directory
from headrace.kafka.kafka_clients import ClientProperties, client_properties
from headrace.kafka.leadership import group_id
from headrace.kafka.ledger_cache import LedgerCache, open_cache
from headrace.kafka.ledger_follower import Applied, Follower, PassOver
from headrace.kafka.ledger_topic import (
    OF_INGESTERS,
    LedgerIdentity,
    LedgerWords,
    describe_ledger_topic,
    read_remembered_ledgers,
    refuse_changed,
)
from headrace.model.errors import AccessDenied, InvalidLedger, TopicMissing, Unavailable
from headrace.model.ledger_entry import ControlKey
from headrace.options.settings import Settings

# How late a reader notices that what it waits for is so.
_LOOK_SECONDS: Final = 0.05


class LedgerReader:
    """A cache of the ledger that follows it, until `close`. It joins no group and writes nothing.

    What it shows is read-committed, up to the last stable offset: an open transaction may hide what was
    committed above it a moment ago. For the true end one has to lead.
    """

    def __init__(
        self,
        clients: ClientProperties,
        *,
        name: str,
        topic: str,
        timeout: float,
        pass_over: PassOver | None = None,
        before: LedgerIdentity | None = None,
        words: LedgerWords = OF_INGESTERS,
        refused: float | None = None,
    ) -> None:
        """Blocks until all that is visible has been read. See DriverLedger for `pass_over` and `before`.

        TopicMissing, InvalidLedger, AccessDenied; Unavailable when reading does not advance for `timeout`
        seconds; for `refused` seconds, where given, of a topic that may not be read.
        """
        self._news = threading.Condition()
        self._seen: set[ControlKey] = set()
        admin = KafkaAdmin(clients.admin, timeout=min(CALL_SECONDS, timeout))
        found = describe_ledger_topic(admin, topic, words)
        if before is not None:
            refuse_changed(before, found.identity, words)
        low, high = admin.ends(topic)
        with ExitStack() as undoing:
            # Never state.dir: its lock belongs to the service, which would have to read the ledger whole.
            home = find_cache_directory(None, name)
            undoing.callback(home.close)
            self.cache: LedgerCache = open_cache(
                home, found.identity, ends=(low, high), delete_retention_ms=found.delete_retention_ms
            )
            undoing.callback(self.cache.close)
            self._follower = Follower(
                clients.consumer,
                self.cache,
                topic=topic,
                group=group_id(name),
                start=low,
                on_applied=self._applied,
                pass_over=pass_over,
                words=words,
            )
            undoing.callback(self._follower.close)
            self._follower.wait_for_visible_end(timeout, refused=refused)
            self._follower.go_live()
            self._closing = undoing.pop_all()

    @property
    def last_read(self) -> LastRead:
        """See `Follower.last_read`."""
        return self._follower.last_read

    def has_seen(self, key: ControlKey) -> bool:
        """Whether a record (no tombstone) of this control key was committed since this reading is live."""
        with self._news:
            return key in self._seen

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Whether the condition on the cache came true in `timeout` seconds. Raises what ended reading."""
        deadline = time.monotonic() + timeout
        while not condition():
            self._follower.check()
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def reads_to(self, end: int, timeout: float) -> bool:
        """Whether all below the offset `end` is in the cache in `timeout` seconds; raises as `wait_for`."""
        return self.wait_for(lambda: self._follower.position >= end, timeout)

    def read_to(self, end: int, timeout: float) -> None:
        """Return when everything below the offset `end` is in the cache; Unavailable when it is held back."""
        if not self.reads_to(end, timeout):
            raise Unavailable(
                f"The ledger could not be read to offset {end} in {timeout:.0f} s: an open transaction hides "
                "what follows. Try again in a minute."
            )

    def close(self) -> None:
        """Stop reading and remove the cache."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _applied(self, batch: tuple[Applied, ...]) -> None:
        with self._news:
            self._seen.update(
                one.key for one in batch if isinstance(one.key, ControlKey) and one.entry is not None
            )


def open_ledger_reader(settings: Settings, *, timeout: float) -> LedgerReader | None:
    """A reading of the ingester's ledger, or None when there is none yet. Blocks; raises as it does."""
    try:
        return LedgerReader(
            client_properties(settings),
            name=settings.name,
            topic=settings.kafka.ledger_topic,
            timeout=timeout,
        )
    except TopicMissing:
        return None


def lost_ledger(settings: Settings, *, timeout: float) -> InvalidLedger | None:
    """Why `run` refuses the ledger as lost: it is gone, made again or another one. Blocks.

    None where it is the group's, before the first start, and where the group may not be asked.
    It is not raised: what only reads may be shown without a ledger. Unavailable after `timeout` seconds.
    """
    admin = KafkaAdmin(client_properties(settings).admin, timeout=min(CALL_SECONDS, timeout))
    topic = settings.kafka.ledger_topic
    try:
        remembered = read_remembered_ledgers(admin, group_id(settings.name))
        if not remembered.is_empty:
            remembered.refuse_other(topic, admin.topic_id(topic) if admin.has_topic(topic) else None)
    except InvalidLedger as error:
        return error
    except AccessDenied:
        return None
    return None
