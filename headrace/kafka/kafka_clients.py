"""Kafka clients from translated properties, in one place, so that all of them log and identify alike.

Of admin clients there is one for everything in this process that connects to the same brokers in the same
way: a client is three or four threads that wake once a second, whatever it is asked, and a worker has
hundreds of connectors. How old the brokers are shows in the requests that they offer: Kafka has no question
for it.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ThrottleEvent
from confluent_kafka.admin import AdminClient

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.options.client_names import TRANSACTION_TIMEOUT_MS
from headrace.options.sasl import KERBEROS
from headrace.options.settings import Settings
from headrace.options.token_logins import CONFIG

# librdkafka's own lines; whoever configures logging decides how they look.
LOGGER: Final = logging.getLogger("headrace.librdkafka")

_QUIET_SECONDS: Final = 10.0
# How long a fetch may find nothing while an end is waited for.
_EAGER_MS: Final = 20


# Those of admin clients, whose failed connections are in the error of the request.
_ADMIN_LOGGER: Final = logging.getLogger("headrace.librdkafka.admin")


class _RepeatFilter(logging.Filter):
    """Lets one line of each kind through in ten seconds: a broker that is away gives ten a second."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[int, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = _kind(record)
        now = time.monotonic()
        if now - self._said.get((record.levelno, kind), -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        self._said[record.levelno, kind] = now
        return True


def _kind(record: logging.LogRecord) -> str:
    """What confluent-kafka gives as the first of the arguments: FAIL, TXNERR, .."""
    return str(record.args[0]) if isinstance(record.args, tuple) and record.args else str(record.msg)


LOGGER.addFilter(_RepeatFilter())
_ADMIN_LOGGER.addFilter(lambda record: _kind(record) not in {"FAIL", "ERROR"})

# -- Quotas: brokers answer late on purpose, and tell by how much (KIP-219) ----------------------------------

_LOG: Final = structlog.get_logger(__name__)

# Often enough to be seen, seldom enough for a quota that holds for days.
_SAY_SECONDS: Final = 60.0
# Less than this a minute is how a quota rounds, and nobody's trouble.
_LEAST_SECONDS: Final = 1.0
_DETAIL: Final = (
    "a quota of the brokers for this user or client.id holds it back; all goes at that pace. For more, raise "
    "producer_byte_rate, consumer_byte_rate or request_percentage (kafka-configs.sh --entity-type users, or "
    "clients)"
)


class HeldBack:
    """How long brokers held clients back since that was said last. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._due = 0.0

    def add(self, broker: str, seconds: float) -> None:
        """Say it, at most once a minute."""
        now = self.clock()
        with self._lock:
            self._seconds += seconds
            if self._seconds < _LEAST_SECONDS or now < self._due:
                return
            seconds, self._seconds, self._due = self._seconds, 0.0, now + _SAY_SECONDS
        _LOG.warning("brokers_throttle", broker=broker, seconds=round(seconds, 1), detail=_DETAIL)


_HELD_BACK: Final = HeldBack()
"""Of all clients of this process."""


class Throttle:
    """Until when brokers let a client wait; all that is said, too (WARN `brokers_throttle`)."""

    def __init__(self, held_back: HeldBack = _HELD_BACK) -> None:
        self._held_back = held_back
        self._until = 0.0

    def on_event(self, event: ThrottleEvent) -> None:
        """What librdkafka calls out of a client's poll; with 0 seconds it is over."""
        self._until = self._held_back.clock() + event.throttle_time
        if event.throttle_time > 0:
            self._held_back.add(event.broker_name, event.throttle_time)

    @property
    def holds(self) -> bool:
        """Whether a broker has answered the client, and will not do so again for a while."""
        return self._held_back.clock() < self._until


# -- The clients, by what they are for ----------------------------------------------------------------------

_TIMEOUT: Final = "transaction.timeout.ms"
_SHORTER: Final = frozenset(("delivery.timeout.ms", "message.timeout.ms", "socket.timeout.ms"))
_LINGER: Final = frozenset(("linger.ms", "queue.buffering.max.ms"))

Properties = Mapping[str, str]
Client = TypeVar("Client", Consumer, Producer, AdminClient)
OnError = Callable[[KafkaError], None]


@dataclass(slots=True)
class ClientClasses:
    """What makes the clients of this process."""

    consumer: Callable[[dict[str, Any]], Consumer] = Consumer
    producer: Callable[[dict[str, Any]], Producer] = Producer
    admin: Callable[[dict[str, Any]], AdminClient] = AdminClient


CLASSES: Final = ClientClasses()
"""confluent-kafka's own, unless a simulation of Kafka has put others in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProperties:
    """librdkafka properties of the three kinds of clients, secrets included: never shown."""

    producer: Properties = field(repr=False)
    consumer: Properties = field(repr=False)
    admin: Properties = field(repr=False)


def client_properties(settings: Settings) -> ClientProperties:
    """The properties of all Kafka clients, secrets revealed."""
    kafka = settings.kafka
    return ClientProperties(
        producer=kafka.client("producer"), consumer=kafka.client("consumer"), admin=kafka.client("admin")
    )


def new_consumer(
    properties: Properties,
    ours: Mapping[str, Any],
    *,
    on_error: OnError | None = None,
    throttle: Throttle | None = None,
) -> Consumer:
    """A consumer; `ours` are the protocol's properties, which nothing overrides."""
    never = {"enable.auto.commit": False, "enable.auto.offset.store": False}
    return _made(CLASSES.consumer, _merged(properties, never | dict(ours), on_error, throttle))


def new_ledger_consumer(properties: Properties, *, group: str, isolation: str, is_patient: bool) -> Consumer:
    """A consumer that is assigned by hand, with explicit offsets, and errs rather than jump over a gap.

    That the end was reached is known when a fetch has found nothing: half a second later where the broker is
    patient, and a takeover waits for up to three ends.
    """
    return new_consumer(
        properties,
        ({} if is_patient else {"fetch.wait.max.ms": _EAGER_MS})
        | {
            # Never joined, nothing is committed: the client only insists on having one that it may ask about.
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            # After its queue was full librdkafka pauses fetching for this long: a second each would cost a
            # restart ten.
            "fetch.queue.backoff.ms": 10,
            # Ten times as long after a refusal by an ACL, which may have been given just now.
            "fetch.error.backoff.ms": 100,
            "queued.max.messages.kbytes": 32 * 1024,
        },
    )


def new_transactional_producer(properties: Properties, transactional_id: str) -> Producer:
    """A producer with this transactional id, not initialised yet."""
    ours = {"transactional.id": transactional_id, "enable.idempotence": True, "acks": "all"}
    return _made(CLASSES.producer, _merged(properties, ours | _bounded(properties), None))


def _bounded(given: Properties) -> dict[str, int]:
    """The timeouts of transactions and what is given of shorter ones, as librdkafka takes them together.

    Slots without transactions (`exactly.once.support=disabled`) may wait for longer than the ledger's writer.
    """
    # An operator may lower it.
    most = min(int(given.get(_TIMEOUT, TRANSACTION_TIMEOUT_MS)), TRANSACTION_TIMEOUT_MS)
    # librdkafka's 0 is no limit.
    found = {name: min(int(given[name]) or most, most) for name in _SHORTER & given.keys()}
    lingering = {name: most // 2 for name in _LINGER & given.keys() if int(given[name]) >= most}
    return {_TIMEOUT: most, **found, **lingering}


def new_idempotent_producer(properties: Properties) -> Producer:
    """A producer without transactions, which repeats nothing by itself."""
    given = {name: value for name, value in properties.items() if name != _TIMEOUT}
    return _made(CLASSES.producer, _merged(given, {"enable.idempotence": True, "acks": "all"}, None))


def new_admin(
    properties: Properties, *, on_error: OnError | None = None, logger: logging.Logger = _ADMIN_LOGGER
) -> AdminClient:
    """An admin client. Its calls give futures; `on_error` and `logger` are called out of its `poll`."""
    return _made(CLASSES.admin, _merged(properties, {}, on_error) | {"logger": logger})


class ClientRefused(InvalidConfiguration):
    """librdkafka does not take the properties of a client: by a file of theirs, or by each other."""


def _made(kind: Callable[[dict[str, Any]], Client], properties: dict[str, Any]) -> Client:
    """The client; ClientRefused, naming their files, when librdkafka does not take its properties.

    Unavailable where the process may start no more threads.
    """
    try:
        return kind(properties)
    except KafkaException as error:
        if error.args[0].code() == KafkaError._CRIT_SYS_RESOURCE:  # noqa: SLF001  # its only name
            raise Unavailable(
                f"a Kafka client cannot be made ({error.args[0].str()}): where the process may start no more "
                "threads, raise TasksMax= or the limit of pids."
            ) from error
        if properties.get("sasl.mechanisms") == KERBEROS:
            raise ClientRefused(
                f"sasl.mechanism = {KERBEROS!r}: Kerberos needs a librdkafka with libsasl2, which that of "
                f"confluent-kafka's wheel is not ({error.args[0].str()}). Install librdkafka-dev of your "
                "distribution and Cyrus SASL's GSSAPI module, and build confluent-kafka against it (`pip "
                "install --no-binary confluent-kafka confluent-kafka`); or log in with SCRAM, OAUTHBEARER or "
                "a TLS certificate."
            ) from error
        files = [
            f"{name} = {value!r}{'' if Path(value).exists() else ', which is not there'}"
            for name, value in properties.items()
            if name.endswith(".location") and isinstance(value, str)
        ]
        named = f" It names the files {'; '.join(files)}." if files else ""
        raise ClientRefused(
            f"librdkafka does not take the configuration of a client: {error.args[0].str()}.{named} Correct "
            "ssl.*, sasl.* or the overrides."
        ) from error


def _merged(
    properties: Properties,
    ours: Mapping[str, Any],
    on_error: OnError | None,
    throttle: Throttle | None = None,
) -> dict[str, Any]:
    """All properties of a client; AccessDenied where it needs a token, and there is none.

    No client has brokers make a topic by asking for it, which producers do by default: a missing one is made
    as `topic.creation.default.*` say, or is an error that names it.
    """
    merged: dict[str, Any] = {"log.connection.close": False, **properties, **ours, "logger": LOGGER}
    merged["allow.auto.create.topics"] = False
    merged["throttle_cb"] = (throttle or Throttle()).on_event
    if CONFIG in merged:
        # It signs with botocore, which takes a quarter of a second to load.
        from headrace.kafka.tokens import token_callback

        callback = token_callback(merged)
        if callback is not None:
            # With the secrets in it; a callback has them from elsewhere.
            del merged[CONFIG]
            merged["oauth_cb"] = callback
    if on_error is not None:
        merged["error_cb"] = on_error
    return merged


# Files that a client reads once, when it is made (certificates, keys, a keytab).
_FILES: Final = (".location", ".keytab")

_Key = tuple[tuple[str, str, int], ...]


class _ConnectionState:
    """What the connections of a client last failed with, and whether none is left. Thread-safe.

    Apart from the client, which refers to it: together they would be a circle, and outlive their last user.
    """

    def __init__(self) -> None:
        self.trouble: tuple[float, KafkaError] | None = None
        self.is_alone = False

    def on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - how the library names local codes
            self.is_alone = True
        else:
            self.trouble = (time.monotonic(), error)


class AdminConnection:
    """An admin client that several share; it ends with the last of them. Thread-safe."""

    def __init__(self, properties: Properties) -> None:
        self._state = _ConnectionState()
        self.client: AdminClient = new_admin(properties, on_error=self._state.on_error)

    @property
    def is_alone(self) -> bool:
        """Whether no broker has answered since all were lost: librdkafka says so once, not each time."""
        return self._state.is_alone

    def poll(self) -> None:
        """Pick up what connections have failed with."""
        self.client.poll(0)

    def answered(self) -> None:
        """A broker has answered."""
        self._state.is_alone = False

    def trouble_since(self, moment: float) -> KafkaError | None:
        """What a connection last failed with, where that was after this moment (monotonic)."""
        trouble = self._state.trouble
        return None if trouble is None or trouble[0] < moment else trouble[1]


_lock = threading.Lock()
_connections: WeakValueDictionary[_Key, AdminConnection] = WeakValueDictionary()


def shared_admin(properties: Properties) -> AdminConnection:
    """The connection of all who have these properties, for as long as one of them keeps it.

    Another one where a file that they name has changed: who starts after certificates were renewed uses them.
    """
    key = tuple(sorted((name, value, _changed_ns(name, value)) for name, value in properties.items()))
    with _lock:
        found = _connections.get(key)
        if found is None:
            found = _connections[key] = AdminConnection(properties)
        return found


def _changed_ns(name: str, value: str) -> int:
    """When the file that a property names was written; 0 for another property, or without the file."""
    if not name.endswith(_FILES):
        return 0
    try:
        return Path(value).stat().st_mtime_ns
    except OSError:
        return 0


# What Apache Kafka 3.0 brought, by API key: the least version of the request that no 2.x broker offers
# (https://kafka.apache.org/protocol). Who offers one of them is not refused: brokers of other makers speak
# Kafka's protocol with gaps of their own.
_SINCE_3_0: Final[Mapping[int, int]] = {
    2: 7,  # ListOffsets, KIP-734
    9: 8,  # OffsetFetch, KIP-709
    10: 4,  # FindCoordinator, KIP-699
    65: 0,  # DescribeTransactions, KIP-664
    66: 0,  # ListTransactions, KIP-664
}
# What librdkafka writes of each request when it was asked for its debug context `feature`; there is no call.
_OFFERED: Final = re.compile(r"ApiKey \S+ \((\d+)\) Versions \d+\.\.(\d+)")
# What it writes behind them.
_BEHIND: Final = "abling feature"
_POLL_SECONDS: Final = 0.02
_GRACE_SECONDS: Final = 2.0

# Clients that must not be ended yet.
_unanswered: Final[list[AdminClient]] = []


def is_too_old(offered: Mapping[int, int]) -> bool:
    """Whether these are the highest versions of a 2.x broker, by API key; of no answer nothing is said."""
    return bool(offered) and not any(offered.get(key, -1) >= least for key, least in _SINCE_3_0.items())


def require_brokers(properties: Properties, *, timeout: float) -> None:
    """InvalidConfiguration when the brokers are too old; of brokers that do not answer nothing is said."""
    if is_too_old(offered_versions(properties, timeout=timeout)):
        raise InvalidConfiguration(
            f"The brokers at {properties.get('bootstrap.servers', '')} are older than Apache Kafka 3.0, "
            "which is the oldest that Headrace supports: update them (docs/support.md)."
        )


def offered_versions(properties: Properties, *, timeout: float) -> dict[int, int]:
    """The highest version of each request that a broker offers, by API key; empty without answer. Blocks."""
    lines = _Lines()
    # One of its own for each call: the connectors of a worker start together, and ask at once.
    logger = logging.Logger(f"{__name__}.lines", logging.DEBUG)  # noqa: LOG001  # getLogger gives all the same
    logger.addHandler(lines)
    admin = new_admin({**properties, "debug": "feature"}, logger=logger)
    # The client gives up by itself before this.
    deadline = time.monotonic() + timeout + _GRACE_SECONDS
    # Any request: it makes the client connect, and a broker's versions come before its answer.
    answer = admin.describe_cluster(request_timeout=timeout)
    # Until the answer, though the versions come before it: librdkafka 2.16 dereferences NULL when it meets a
    # client that is being ended (seen: SIGSEGV, in one of fifty starts).
    while not answer.done() and time.monotonic() < deadline:
        admin.poll(_POLL_SECONDS)
    if not answer.done():
        _unanswered.append(admin)
    while not lines.is_complete and admin.poll(0):
        pass
    # Of a list that is cut short nobody knows what it would have said.
    return lines.offered if lines.is_complete else {}


class _Lines(logging.Handler):
    """Picks the versions out of librdkafka's lines; of several brokers the oldest counts."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: dict[int, int] = {}
        self.is_complete = False

    def emit(self, record: logging.LogRecord) -> None:
        """One line, in the thread that polls."""
        line = record.getMessage()
        self.is_complete |= bool(self.offered) and _BEHIND in line
        found = _OFFERED.search(line)
        if found is not None:
            key, highest = int(found[1]), int(found[2])
            self.offered[key] = min(highest, self.offered.get(key, highest))
