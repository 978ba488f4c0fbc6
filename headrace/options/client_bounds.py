"""What librdkafka and the protocol take of a client's properties: each alone, and those that meet.

A client is made long after a configuration was found good, some of them in a slot's task alone: so what
librdkafka would refuse then is said, or fitted, here. What Java's clients take and librdkafka does not counts
as the nearest that it does, with a warning; what neither takes is a problem. Of lists of TLS
(`ssl.curves.list`) OpenSSL decides when a client is made. `tests/headrace/options/test_client_bounds.py`
holds all of it against the library itself.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import Final

from headrace.options import client_names as names
from headrace.options.choices import ExactlyOnce
from headrace.options.client_names import Translation
from headrace.options.declarations import connection_options, record_options
from headrace.options.given import Entry, Values
from headrace.options.settings import Role
from headrace.options.value_types import Form, FormError, integer

_TIMEOUT: Final = "transaction.timeout.ms"
_HEARTBEAT: Final = "heartbeat.interval.ms"
_QUEUE: Final = "queue.buffering.max.kbytes"
_DELIVERY: Final = ("delivery.timeout.ms", "message.timeout.ms")
_LINGER: Final = ("linger.ms", "queue.buffering.max.ms")
_REQUEST: Final = "request.timeout.ms"
_FIRST: Final = "reconnect.backoff.ms"
_LAST: Final = "reconnect.backoff.max.ms"
_FETCHED: Final = "fetch.max.bytes"
_RECEIVED: Final = "receive.message.max.bytes"
_QUEUED: Final = "queued.max.messages.kbytes"


class Compressed(StrEnum):
    """How librdkafka compresses batches of records."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


# Within these the protocol keeps its promises: an abandoned transaction holds back read-committed readers
# until it times out, and idempotence ends at five requests in flight and without retries.
BOUNDED: Final[dict[str, Form[int]]] = {
    _TIMEOUT: integer(6_000, 60_000, unit="milliseconds"),
    "session.timeout.ms": integer(6_000, names.LONGEST_MS["session.timeout.ms"], unit="milliseconds"),
    _HEARTBEAT: integer(100, 20_000, unit="milliseconds"),
    "max.poll.interval.ms": integer(60_000, names.LONGEST_MS["max.poll.interval.ms"], unit="milliseconds"),
    "max.in.flight.requests.per.connection": integer(1, 5),
    "max.in.flight": integer(1, 5),
    "retries": integer(1),
    "message.send.max.retries": integer(1),
    **dict.fromkeys(_DELIVERY, integer(0)),
    **dict.fromkeys(("message.max.bytes", "max.request.size"), integer(1_000, 1_000_000_000, unit="bytes")),
}

# -- Each property alone -------------------------------------------------------------------------------------

_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "api.version.fallback.ms": (0, 604_800_000),
    "api.version.request.timeout.ms": (1, 300_000),
    "batch.num.messages": (1, 1_000_000),
    "batch.size": (1, _INT),
    "broker.address.ttl": (0, 86_400_000),
    "compression.level": (-1, 12),
    "connections.max.idle.ms": (0, _INT),
    "coordinator.query.interval.ms": (1, 3_600_000),
    "fetch.error.backoff.ms": (0, 300_000),
    # As much as message.max.bytes, which is a producer's.
    _FETCHED: (1_000_000, 2_147_483_135),
    "fetch.message.max.bytes": (1, 1_000_000_000),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.queue.backoff.ms": (0, 300_000),
    "fetch.wait.max.ms": (0, 300_000),
    "linger.ms": (0, 900_000),
    "log_level": (0, 7),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
    "message.copy.max.bytes": (0, 1_000_000_000),
    "message.max.bytes": (1_000, 1_000_000_000),
    "metadata.max.age.ms": (1, 86_400_000),
    "metadata.recovery.rebootstrap.trigger.ms": (0, _INT),
    "queue.buffering.backpressure.threshold": (1, 1_000_000),
    _QUEUE: (1, _INT),
    "queue.buffering.max.messages": (0, _INT),
    "queue.buffering.max.ms": (0, 900_000),
    _QUEUED: (1, 2_097_151),
    "queued.min.messages": (1, 10_000_000),
    _RECEIVED: (1_000, _INT),
    _LAST: (0, 3_600_000),
    _FIRST: (0, 3_600_000),
    _REQUEST: (1, 900_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "sasl.kerberos.min.time.before.relogin": (0, 86_400_000),
    "sasl.oauthbearer.assertion.claim.exp.seconds": (1, _INT),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": (0, _INT),
    "socket.connection.setup.timeout.ms": (1_000, _INT),
    "socket.max.fails": (0, 1_000_000),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
    "statistics.interval.ms": (0, 86_400_000),
    "sticky.partitioning.linger.ms": (0, 900_000),
    "topic.metadata.propagation.max.ms": (0, 3_600_000),
    "topic.metadata.refresh.fast.interval.ms": (1, 60_000),
    "topic.metadata.refresh.interval.ms": (-1, 3_600_000),
}
"""What librdkafka takes of numbers, the least and the most; beyond an int of C it takes another number."""
# Bytes of Java's that are kilobytes of librdkafka's.
_MEMORY: Final = (1_024, _INT)
# What Java's clients take, by their names; more of socket.timeout.ms was always taken in transactions.
_JAVA: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(
        (
            _FIRST,
            _LAST,
            "buffer.memory",
            "linger.ms",
            "metadata.max.age.ms",
            "metadata.recovery.rebootstrap.trigger.ms",
            "retry.backoff.max.ms",
            "retry.backoff.ms",
            "sasl.kerberos.min.time.before.relogin",
            "socket.connection.setup.timeout.ms",
        ),
        (0, _LONG),
    ),
    **dict.fromkeys(
        (
            "batch.size",
            _FETCHED,
            "fetch.max.wait.ms",
            "fetch.min.bytes",
            "max.partition.fetch.bytes",
            "max.request.size",
        ),
        (0, _INT),
    ),
    # With less no request would be answered in time.
    _REQUEST: (1, _INT),
    "socket.timeout.ms": (10, _INT),
    **dict.fromkeys(names.BUFFER_SIZES, (-1, _INT)),
    "connections.max.idle.ms": (-_LONG, _LONG),
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131_072, 22),
}
# What Java writes as a number below zero, and librdkafka as 0: the system's buffer, and no limit.
_ZERO_BELOW: Final = frozenset({*names.BUFFER_SIZES, "connections.max.idle.ms"})
_MEASURES: Final = {
    **dict.fromkeys(("ms", "ttl", "relogin"), "milliseconds"),
    **dict.fromkeys(("bytes", "size", "memory"), "bytes"),
    "seconds": "seconds",
    "kbytes": "kibibytes",
}
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "broker.address.family": ("any", "v4", "v6"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "metadata.recovery.strategy": ("none", "rebootstrap"),
    "sasl.oauthbearer.assertion.algorithm": ("RS256", "ES256"),
    "sasl.oauthbearer.grant.type": ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
    "sasl.oauthbearer.metadata.authentication.type": ("none", "azure_imds"),
    "sasl.oauthbearer.method": ("default", "oidc"),
    **dict.fromkeys(("compression.type", "compression.codec"), tuple(Compressed)),
}
_SWITCHED: Final = {"true": "true", "t": "true", "1": "true", "false": "false", "f": "false", "0": "false"}


def counted(role: Role, name: str, entry: Entry, into: Translation) -> str | None:
    """Return the text that librdkafka is to have of a property; None, and a problem, of what it cannot have.

    A number that Java's clients take counts as the nearest that librdkafka takes, with a warning.
    """
    own = names.own_name(role, name)
    ends = _MEMORY if name == "buffer.memory" else RANGES.get(own)
    form = BOUNDED.get(name)
    if form is not None or ends is not None:
        return _counted_number(name, entry, ends, form, into)
    if own in CHOICES:
        return _chosen(entry, {one.lower(): one for one in CHOICES[own]}, into)
    if own in names.SWITCHES:
        return _chosen(entry, _SWITCHED, into, expected="true or false")
    if own == "debug":
        return _contexts(entry, into)
    return entry.text


def _counted_number(
    name: str, entry: Entry, ends: tuple[int, int] | None, form: Form[int] | None, into: Translation
) -> str | None:
    if ends is not None and form is None:
        form = integer(*ends, unit=_MEASURES.get(name.rpartition(".")[2], ""))
    assert form is not None
    try:
        return str(form.parse(entry.text))
    except FormError:
        nearest = None if ends is None else _nearest(name, entry.text, ends)
        if nearest is None:
            into.refuse(entry, f"expected {form.expected}")
        elif nearest != 0 or name not in _ZERO_BELOW:
            which = "most" if ends is not None and nearest == ends[1] else "least"
            into.note(entry, f"counts as {nearest}, the {which} that librdkafka takes")
        return None if nearest is None else str(nearest)


def _nearest(name: str, text: str, ends: tuple[int, int]) -> int | None:
    """The number within these ends that is nearest to one that Java takes; None for another text."""
    least, most = _JAVA.get(name, ends)
    form = integer(least, most)
    if not form.takes(text):
        return None
    # Of levels of zstd the negative ones are the fastest; librdkafka's -1 is the default.
    low = 1 if name.endswith(".level") else ends[0]
    return min(max(form.parse(text), low), ends[1])


def _chosen(entry: Entry, known: Mapping[str, str], into: Translation, *, expected: str = "") -> str | None:
    found = known.get(entry.text.strip().lower())
    if found is None:
        *first, last = known.values()
        into.refuse(entry, f"expected {expected or ', '.join(first) + ' or ' + last}")
    return found


# Before what is added, and what is left out.
_SIGN: Final = re.compile("^[-+]")


def _contexts(entry: Entry, into: Translation) -> str | None:
    found = [one.strip() for one in entry.text.split(",") if one.strip()]
    if not found or not {_SIGN.sub("", one.lower()) for one in found} <= names.CONTEXTS:
        into.refuse(entry, f"expected one or several, with commas, of {', '.join(sorted(names.CONTEXTS))}")
        return None
    return ",".join(found)


# -- Properties that meet ------------------------------------------------------------------------------------

# What goes around a record in a request.
_AROUND_A_RECORD: Final = 65_536
# From the end of a transaction's interval to its commit, retries of the broker included.
_COMMIT_TIME_MS: Final = 5_000
# librdkafka's defaults, of which it does not take less, or more, next to what is given.
_DELIVERY_MS: Final = 300_000
_REQUEST_MS: Final = 30_000
_FIRST_MS: Final = 100
_LAST_MS: Final = 10_000
_FETCHED_BYTES: Final = 52_428_800
_LEAST_FETCHED_BYTES: Final = 1_000_000
# What is fetched by our own properties, by which it is bounded: of the ledger, and by a sink's reader.
_LEDGER_BYTES: Final = 33_554_432
_READER_BYTES: Final = 4_194_304
_AROUND_A_FETCH: Final = 512


def fit(
    role: Role,
    found: dict[str, str],
    given: Mapping[str, Entry],
    values: Values,
    into: Translation,
    *,
    is_sink: bool,
) -> None:
    """Bring the properties of a client to what librdkafka and the protocol take together.

    What cannot be is a problem.
    """
    _fit_backoff(found, given, into)
    if role == "producer":
        _fit_producer(found, given, values, into)
    elif role == "consumer":
        _fit_received(found, given, into, is_sink=is_sink)
        _fit_consumer(found, given, values, into)


def _fit_backoff(found: dict[str, str], given: Mapping[str, Entry], into: Translation) -> None:
    """As Java does: a last wait that is not given is as long as the first, and the first as one that is."""
    first, last = int(found.get(_FIRST, _FIRST_MS)), int(found.get(_LAST, _LAST_MS))
    if first <= last:
        return
    if _LAST not in found:
        found[_LAST] = str(first)
        return
    found[_FIRST] = str(last)
    if _FIRST in given:
        into.note(given[_FIRST], f"counts as {last}, which is {given[_LAST].spelled}")


def _fit_producer(
    found: dict[str, str], given: Mapping[str, Entry], values: Values, into: Translation
) -> None:
    _bound_transactions(found, given, values, into)
    if values.are_good(connection_options.PARTITIONER):
        found["partitioner"] = values[connection_options.PARTITIONER].value
    if values.are_good(record_options.RECORD_MAX_BYTES):
        _hold_a_record(values[record_options.RECORD_MAX_BYTES], found, given, into)


def _bound_transactions(
    found: dict[str, str], given: Mapping[str, Entry], values: Values, into: Translation
) -> None:
    """Set the timeout that brokers have for a transaction; what would outlast it is a problem."""
    asked = int(found.get(_TIMEOUT, names.TRANSACTION_TIMEOUT_MS))
    timeout = min(asked, names.TRANSACTION_TIMEOUT_MS)
    found[_TIMEOUT] = str(timeout)
    _hold_lingering(found, given, into)
    if not _has_transactions(values):
        # Records have none; those of the ledger are bounded where their producers are made.
        _extend_delivery(found)
        return
    if timeout < asked:
        into.note(
            given[_TIMEOUT],
            f"counts as {timeout}; with more, an abandoned transaction would hold read-committed consumers "
            "back for longer",
        )
    limit = f"producer.override.{_TIMEOUT} ({timeout}{' at most' if timeout < asked else ''})"
    if values.are_good(record_options.BOUNDARY_INTERVAL):
        interval = values[record_options.BOUNDARY_INTERVAL]
        if interval + _COMMIT_TIME_MS > timeout:
            values.refuse(
                record_options.BOUNDARY_INTERVAL,
                f"must be {_COMMIT_TIME_MS:,} ms at least below {limit}, or the broker aborts transactions "
                "that are about to commit",
            )
    for name in filter(found.__contains__, _DELIVERY):
        # librdkafka's 0 is no limit.
        is_endless = int(found[name]) <= 0
        if is_endless or int(found[name]) > timeout:
            tail = ", and is no limit at all" if is_endless else ""
            into.refuse(given[name], f"must not exceed {limit}{tail}")


def _hold_lingering(found: dict[str, str], given: Mapping[str, Entry], into: Translation) -> None:
    """Note a delivery that would time out before records are sent, with which no producer is made."""
    for name, linger in product(_DELIVERY, _LINGER):
        if {name, linger} <= found.keys() and 0 < int(found[name]) <= int(found[linger]):
            into.refuse(given[name], f"must be above {given[linger].spelled} ({given[linger].shown})")


def _extend_delivery(found: dict[str, str]) -> None:
    """Let a delivery that is not given last for longer than records linger, as Java does."""
    linger = max((int(found[name]) for name in _LINGER if name in found), default=0)
    if linger >= _DELIVERY_MS and not found.keys() & {*_DELIVERY}:
        found["message.timeout.ms"] = str(linger + int(found.get(_REQUEST, _REQUEST_MS)))


def _has_transactions(values: Values) -> bool:
    option = connection_options.EXACTLY_ONCE
    return not values.are_good(option) or values[option] is ExactlyOnce.REQUIRED


def _hold_a_record(
    record_bytes: int, found: dict[str, str], given: Mapping[str, Entry], into: Translation
) -> None:
    """Let a request, and the queue of a slot, hold the largest record; a smaller one given is a problem.

    For a record larger than the queue librdkafka has no room even when it is empty, and the slot would wait
    for it without end.
    """
    request = record_bytes + _AROUND_A_RECORD
    queue_kbytes = -(-request // 1_024)
    if queue_kbytes > names.SLOT_QUEUE_KBYTES:
        found.setdefault(_QUEUE, str(queue_kbytes))
    found.setdefault("message.max.bytes", str(request))
    for name, own, least in (
        ("max.request.size", "message.max.bytes", request),
        ("message.max.bytes", "message.max.bytes", request),
        ("buffer.memory", _QUEUE, queue_kbytes),
        (_QUEUE, _QUEUE, queue_kbytes),
    ):
        if name in given and own in found and int(found[own]) < least:
            into.refuse(
                given[name],
                f"must be {least * 1_024 if name == 'buffer.memory' else least:,} at least: record.max.bytes "
                f"and {_AROUND_A_RECORD:,} around a record",
            )


def _fit_received(
    found: dict[str, str], given: Mapping[str, Entry], into: Translation, *, is_sink: bool
) -> None:
    """Note an answer of brokers that is too small for what is fetched, with which no consumer is made."""
    if _RECEIVED not in given or _RECEIVED not in found:
        return
    fetched = _fetched(found, given, is_sink=is_sink)
    largest = max(fetched)
    least = largest + _AROUND_A_FETCH
    if int(found[_RECEIVED]) < least:
        into.refuse(
            given[_RECEIVED],
            f"must be {least:,} at least: {fetched[largest]} and {_AROUND_A_FETCH} around it",
        )


def _fetched(found: Mapping[str, str], given: Mapping[str, Entry], *, is_sink: bool) -> dict[int, str]:
    """How many bytes each consumer fetches at most, and by what; unless set no more than its queue."""
    if _FETCHED in found:
        fetched = {int(found[_FETCHED]): given[_FETCHED].spelled}
    elif _QUEUED in found and (queued := int(found[_QUEUED]) * 1_024) < _FETCHED_BYTES:
        fetched = {
            max(queued, _LEAST_FETCHED_BYTES): given[_QUEUED].spelled,
            _LEDGER_BYTES: f"what is fetched of the ledger ({_LEDGER_BYTES:,} unless {_FETCHED} is set)",
        }
    else:
        fetched = {_FETCHED_BYTES: f"{_FETCHED} ({_FETCHED_BYTES:,} unless set)"}
    if is_sink:
        fetched.setdefault(_READER_BYTES, f"what a sink's readers fetch ({_READER_BYTES:,})")
    return fetched


def _fit_consumer(
    found: dict[str, str], given: Mapping[str, Entry], values: Values, into: Translation
) -> None:
    heartbeat = given.get(_HEARTBEAT)
    beats = int(found.get(_HEARTBEAT, "0"))
    if heartbeat is not None and beats > names.HEARTBEAT_MS:
        into.note(
            heartbeat,
            f"counts as {names.HEARTBEAT_MS}; with more, a standby would notice later that the leader has "
            "left",
        )
    if not values.are_good(connection_options.LEAD_SESSION_TIMEOUT):
        return
    lead = values[connection_options.LEAD_SESSION_TIMEOUT]
    session = int(found.setdefault("session.timeout.ms", str(lead)))
    if values.is_given(connection_options.LEAD_SESSION_TIMEOUT) and session != lead:
        message = "says otherwise than lead.session.timeout.ms; keep one of them"
        into.refuse(given["session.timeout.ms"], message)
    if heartbeat is not None and beats * 3 > session:
        into.refuse(heartbeat, f"must be a third of the session timeout ({session}) at most")
