"""Names of Kafka client options: librdkafka's own, Java's that mean the same, and those with no counterpart.

librdkafka 2.16's own list is its CONFIGURATION.md. Left out are names for programs (callbacks, handles), for
its tests (`test.mock.*`), for share groups, and what would undo the order of records (`queuing.strategy`).
`tests/headrace/options/test_client_bounds.py` holds the names against the library itself.
"""

import re
from typing import Final

from headrace.options.given import Entry, Problems
from headrace.options.value_types import matching

# Connect makes a group of any connector's name. The three signs have a meaning in policies of AWS.
GROUP_NAME: Final = matching(
    r"[^\x00-\x1f\x7f-\x9f*?$\ud800-\udfff]{1,1000}", "a text without control characters, *, ? and $"
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHARED: Final = _names(
    """
    client.id message.copy.max.bytes receive.message.max.bytes max.in.flight.requests.per.connection
    max.in.flight metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
    topic.metadata.refresh.interval.ms metadata.max.age.ms topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.sparse topic.metadata.propagation.max.ms topic.blacklist debug
    socket.timeout.ms socket.send.buffer.bytes socket.receive.buffer.bytes socket.keepalive.enable
    socket.nagle.disable socket.max.fails broker.address.ttl broker.address.family
    socket.connection.setup.timeout.ms connections.max.idle.ms reconnect.backoff.ms
    reconnect.backoff.max.ms statistics.interval.ms log_level log.connection.close api.version.request
    api.version.request.timeout.ms api.version.fallback.ms broker.version.fallback security.protocol
    ssl.cipher.suites ssl.curves.list ssl.sigalgs.list ssl.key.location ssl.key.password ssl.key.pem
    ssl.certificate.location ssl.certificate.pem ssl.ca.location ssl.ca.pem https.ca.location
    https.ca.pem ssl.crl.location ssl.keystore.location ssl.keystore.password ssl.providers
    enable.ssl.certificate.verification ssl.endpoint.identification.algorithm sasl.mechanisms
    sasl.username sasl.password sasl.oauthbearer.config enable.sasl.oauthbearer.unsecure.jwt
    sasl.oauthbearer.method sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
    sasl.oauthbearer.scope sasl.oauthbearer.extensions sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.grant.type sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.metadata.authentication.type
    client.rack retry.backoff.ms retry.backoff.max.ms client.dns.lookup enable.metrics.push
    sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin
    """
)
OF_PRODUCERS: Final = _names(
    """
    transaction.timeout.ms message.max.bytes queue.buffering.max.messages queue.buffering.max.kbytes
    queue.buffering.max.ms linger.ms message.send.max.retries retries
    queue.buffering.backpressure.threshold compression.codec compression.type compression.level
    batch.num.messages batch.size sticky.partitioning.linger.ms request.timeout.ms message.timeout.ms
    delivery.timeout.ms
    """
)
OF_CONSUMERS: Final = _names(
    """
    session.timeout.ms heartbeat.interval.ms coordinator.query.interval.ms max.poll.interval.ms
    queued.min.messages queued.max.messages.kbytes fetch.wait.max.ms fetch.queue.backoff.ms
    fetch.message.max.bytes max.partition.fetch.bytes fetch.max.bytes fetch.min.bytes
    fetch.error.backoff.ms check.crcs
    """
)
KNOWN: Final = {"producer": SHARED | OF_PRODUCERS, "consumer": SHARED | OF_CONSUMERS, "admin": SHARED}

SWITCHES: Final = _names(
    """
    api.version.request check.crcs enable.metrics.push enable.sasl.oauthbearer.unsecure.jwt
    enable.ssl.certificate.verification log.connection.close sasl.oauthbearer.assertion.claim.jti.include
    socket.keepalive.enable socket.nagle.disable topic.metadata.refresh.sparse
    """
)
"""Those that are true or false."""
CONTEXTS: Final = _names(
    """
    all generic broker topic metadata feature queue msg protocol cgrp security fetch interceptor plugin
    consumer admin eos mock assignor conf telemetry
    """
)
"""What `debug` may name."""

# Java's name: librdkafka's, where the value needs no change.
RENAMED: Final[dict[str, dict[str, str]]] = {
    "producer": {
        "max.request.size": "message.max.bytes",
        "compression.gzip.level": "compression.level",
        "compression.lz4.level": "compression.level",
        "compression.zstd.level": "compression.level",
    },
    "consumer": {"fetch.max.wait.ms": "fetch.wait.max.ms", "request.timeout.ms": "socket.timeout.ms"},
    "admin": {"request.timeout.ms": "socket.timeout.ms"},
}
RENAMED_FOR_ALL: Final = {
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
}
# The same, where Java's -1 means what librdkafka's 0 does: the buffer size of the system.
BUFFER_SIZES: Final = {
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}


def own_name(role: str, name: str) -> str:
    """Return librdkafka's name of a property of this kind of client; one that it does not know is its own."""
    renamed = RENAMED[role].get(name) or RENAMED_FOR_ALL.get(name)
    return renamed or BUFFER_SIZES.get(name, name)


# What Headrace decides itself, and the values that say the same; any other would weaken the guarantee.
DECIDED_HERE: Final[dict[str, tuple[str, ...]]] = {
    "transactional.id": (),
    "enable.idempotence": ("true",),
    "acks": ("all", "-1"),
    "request.required.acks": ("all", "-1"),
    "group.id": (),
    "group.instance.id": (),
    "group.protocol": ("classic",),
    "isolation.level": ("read_committed",),
    "enable.auto.commit": ("false",),
    "auto.commit.enable": ("false",),
    "enable.auto.offset.store": ("false",),
    "auto.offset.reset": ("error",),
    "partition.assignment.strategy": ("cooperative-sticky",),
    "allow.auto.create.topics": ("false",),
    "enable.partition.eof": ("true",),
    "delivery.report.only.error": ("false",),
}
LONGEST_MS: Final = {"session.timeout.ms": 60_000, "max.poll.interval.ms": 86_400_000}
"""How long a consumer may be silent, or a thread of it stalled, before another takes its work."""
TRANSACTION_TIMEOUT_MS: Final = 15_000
"""What bounds a transaction whose owner is gone (docs/protocol.md); fencing normally comes long before.

Brokers are never told more: read-committed consumers are held back for as long after a crash.
"""
HEARTBEAT_MS: Final = 1_000
"""How often the members of a group are heard of, at least."""
SLOT_QUEUE_KBYTES: Final = 65_536
"""What a slot's producer queues, as it is the backpressure: half a second at full rate."""
DECIDED_ELSEWHERE: Final = {
    "bootstrap.servers": "transactions span one cluster; set bootstrap.servers",
    "metadata.broker.list": "transactions span one cluster; set bootstrap.servers",
    "partitioner": "set producer.partitioner",
    "partitioner.class": "set producer.partitioner",
}

_BYTES: Final = "keys and values are bytes here; remove it"
_OPENSSL: Final = "librdkafka's TLS is OpenSSL, which decides it; remove it"
_CALLBACK: Final = (
    "classes of Java cannot be called from here; remove it and log in with PLAIN, SCRAM, OAUTHBEARER (client "
    "credentials), AWS_MSK_IAM or a TLS certificate"
)
_NOT_NEEDED: Final = "librdkafka has no counterpart; remove it"
NEEDLESS: Final = frozenset(
    (
        "max.block.ms",
        "max.poll.records",
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "socket.connection.setup.timeout.max.ms",
    )
)
"""Properties that decide nothing about what is read or written."""
TUNING: Final = _names(
    """
    ssl.protocol ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.scope.claim.name
    """
) | {name for name in NEEDLESS if name.startswith("sasl.")}
"""Of NEEDLESS and more, what tunes how Java logs in and does TLS: a worker's file may have it."""
OF_SERVERS: Final = _names(
    """
    ssl.client.auth ssl.principal.mapping.rules ssl.allow.dn.changes ssl.allow.san.changes
    sasl.enabled.mechanisms sasl.mechanism.inter.broker.protocol sasl.mechanism.controller.protocol
    sasl.kerberos.principal.to.local.rules sasl.server.callback.handler.class
    sasl.server.max.receive.size sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    """
)
"""By which a broker, or the REST interface of a Connect worker, checks who connects to it."""
WITHOUT_COUNTERPART: Final[dict[str, str]] = {
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "interceptor.classes": "interceptors are classes of Java and do not run here; remove it",
    "sasl.login.class": _CALLBACK,
    **dict.fromkeys(OF_SERVERS, "is for servers, which check their clients by it; remove it"),
    "ssl.engine.factory.class": _CALLBACK,
    "security.providers": _OPENSSL,
    "ssl.protocol": _OPENSSL,
    "ssl.provider": "librdkafka's TLS is OpenSSL; remove it, and name OpenSSL's module in ssl.providers",
    "ssl.enabled.protocols": (
        "TLS 1.2 and 1.3 are spoken here, the newer one that both ends have, and neither can be left out; "
        "remove it, and to be sure of TLS 1.3 let the brokers speak nothing else"
    ),
    "ssl.trustmanager.algorithm": _OPENSSL,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.secure.random.implementation": _OPENSSL,
    "sasl.oauthbearer.jwt.retriever.class": _CALLBACK,
    "sasl.oauthbearer.jwt.validator.class": _CALLBACK,
    "sasl.oauthbearer.header.urlencode": _NOT_NEEDED,
    "sasl.oauthbearer.scope.claim.name": _NOT_NEEDED,
    **dict.fromkeys(NEEDLESS, _NOT_NEEDED),
    "max.block.ms": "a full queue holds reading back here; remove it",
    "max.poll.records": "the ledger is read as it comes; remove it",
}
_KAFKA_S_OWN: Final = "org.apache.kafka.common.security."
_OF_FIPS: Final = re.compile(r"fips|^bc", re.IGNORECASE)


def is_without_effect(name: str, text: str) -> bool:
    """Return whether what a property says is so here in any case, or tunes something that is not here.

    Of a class: one of Kafka's own, which does what other properties say.
    """
    value = text.strip()
    match name:
        case "ssl.enabled.protocols":
            return "TLSV1.2" in {one.strip().upper() for one in value.split(",")}
        case "ssl.provider":
            # A module that is certified is OpenSSL's here: ssl.providers.
            return _OF_FIPS.search(value) is None
        case "ssl.engine.factory.class" | "sasl.login.class" | "sasl.oauthbearer.jwt.validator.class":
            return value.startswith(_KAFKA_S_OWN)
        case "sasl.oauthbearer.jwt.retriever.class":
            return value.startswith(_KAFKA_S_OWN) and not value.endswith(".JwtBearerJwtRetriever")
        case _:
            return name in TUNING


STORES: Final = _names(
    """
    ssl.truststore.type ssl.truststore.location ssl.truststore.password ssl.truststore.certificates
    ssl.keystore.type ssl.keystore.location ssl.keystore.password ssl.keystore.key
    ssl.keystore.certificate.chain
    """
)
TOP_LEVEL: Final = frozenset(
    name
    for name in (
        *SHARED,
        *RENAMED_FOR_ALL,
        *STORES,
        *WITHOUT_COUNTERPART,
        "sasl.jaas.config",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
    )
    if name.startswith(("security.protocol", "sasl.", "ssl."))
)


class Translation:
    """Collects properties; two entries that say one thing differently are a problem."""

    __slots__ = ("_found", "_from", "problems", "warnings")

    def __init__(self, problems: Problems, warnings: dict[str, None] | None = None) -> None:
        self.problems = problems
        self.warnings: dict[str, None] = {} if warnings is None else warnings
        """What is taken otherwise than given, in its order: an option serves several clients."""
        self._found: dict[str, str] = {}
        self._from: dict[str, str] = {}

    def put(self, name: str, value: str, entry: Entry) -> None:
        """Set a property of librdkafka from an entry."""
        if self._found.setdefault(name, value) != value:
            self.refuse(entry, f"says otherwise than {self._from[name]}; keep one of them")
        self._from.setdefault(name, entry.spelled)

    def refuse(self, entry: Entry, message: str) -> None:
        """Note a problem of an entry."""
        self.problems.add(entry.spelled, message, entry.shown)

    def note(self, entry: Entry, message: str) -> None:
        """Note a warning about an entry that is taken."""
        self.warnings[f"{entry.spelled} = {entry.shown}: {message}"] = None

    def get(self, name: str) -> str | None:
        """Return a property set so far."""
        return self._found.get(name)

    def result(self) -> dict[str, str]:
        """Return all properties."""
        return dict(self._found)
