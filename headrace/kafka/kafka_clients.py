"""Kafka clients from translated properties, in one place, so that all of them log and identify alike."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.model.errors import InvalidConfiguration
from headrace.options.sasl import KERBEROS
from headrace.options.token_logins import CONFIG

# librdkafka's own lines; whoever configures logging decides how they look.
LOGGER: Final = logging.getLogger("headrace.librdkafka")

# What bounds a transaction whose owner is gone (docs/protocol.md); fencing normally comes long before.
TRANSACTION_TIMEOUT_MS: Final = 15_000

_QUIET_SECONDS: Final = 10.0


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


def new_consumer(
    properties: Properties, ours: Mapping[str, Any], *, on_error: OnError | None = None
) -> Consumer:
    """A consumer; `ours` are the protocol's properties, which nothing overrides."""
    return _made(
        CLASSES.consumer,
        _merged(
            properties,
            {"enable.auto.commit": False, "enable.auto.offset.store": False} | dict(ours),
            on_error,
        ),
    )


def new_transactional_producer(
    properties: Properties, transactional_id: str, *, on_error: OnError | None = None
) -> Producer:
    """A producer with this transactional id, not initialised yet."""
    ours = {
        "transactional.id": transactional_id,
        "enable.idempotence": True,
        "acks": "all",
        # An operator may lower it; higher would hold read-committed consumers back for longer after a crash.
        "transaction.timeout.ms": min(
            int(properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)), TRANSACTION_TIMEOUT_MS
        ),
    }
    return _made(CLASSES.producer, _merged(properties, ours, on_error))


def new_idempotent_producer(properties: Properties) -> Producer:
    """A producer without transactions, which repeats nothing by itself."""
    return _made(CLASSES.producer, _merged(properties, {"enable.idempotence": True, "acks": "all"}, None))


def new_admin(
    properties: Properties, *, on_error: OnError | None = None, logger: logging.Logger = _ADMIN_LOGGER
) -> AdminClient:
    """An admin client. Its calls give futures; `on_error` and `logger` are called out of its `poll`."""
    return _made(CLASSES.admin, _merged(properties, {}, on_error) | {"logger": logger})


def _made(kind: Callable[[dict[str, Any]], Client], properties: dict[str, Any]) -> Client:
    """The client; InvalidConfiguration, naming their files, when librdkafka does not take its properties."""
    try:
        return kind(properties)
    except KafkaException as error:
        if properties.get("sasl.mechanisms") == KERBEROS:
            raise InvalidConfiguration(
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
        raise InvalidConfiguration(
            f"librdkafka does not take the configuration of a client: {error.args[0].str()}.{named} Correct "
            "ssl.*, sasl.* or the overrides."
        ) from error


def _merged(properties: Properties, ours: Mapping[str, Any], on_error: OnError | None) -> dict[str, Any]:
    """All properties of a client; AccessDenied where it needs a token, and there is none."""
    merged: dict[str, Any] = {"log.connection.close": False, **properties, **ours, "logger": LOGGER}
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
