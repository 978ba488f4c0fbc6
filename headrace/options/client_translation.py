"""What a configuration says of Kafka clients, in Java's words or librdkafka's, to librdkafka's properties.

How a sink reads its topics is the operator's decision, in two properties of the consumer of records alone:
ledger and group are read as the protocol needs it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import product
from typing import Final, TypeVar, get_args

from headrace.model.text_formatting import HINTED, did_you_mean
from headrace.options import client_names as names
from headrace.options.choices import CredentialsProvider, ExactlyOnce, IsolationLevel, OffsetReset
from headrace.options.client_names import Translation
from headrace.options.declarations import connection_options, reading_options, record_options
from headrace.options.given import Entry, Problems
from headrace.options.merge import Gathered
from headrace.options.parsed_options import Values
from headrace.options.sasl import CONSUMED, put_login
from headrace.options.settings import Role
from headrace.options.sink_settings import ReadSettings
from headrace.options.suggestions import property_like
from headrace.options.tls import INLINE, PEM, ReadBytes, put_key_store, put_trust_store, with_line_breaks
from headrace.options.token_logins import IAM
from headrace.options.value_types import Form, FormError, choice, integer, trimmed

T = TypeVar("T")
D = TypeVar("D")

ISOLATION: Final = "isolation.level"
RESET: Final = "auto.offset.reset"
NAMES: Final = (ISOLATION, RESET)
GROUP: Final = "group.id"


def read_settings(given: Mapping[str, Entry], problems: Problems) -> ReadSettings:
    """Return what these entries of the consumer say, by its own property names."""
    default = ReadSettings()
    return ReadSettings(
        isolation=_chosen(given.get(ISOLATION), choice(IsolationLevel), default.isolation, problems),
        reset=_chosen(given.get(RESET), choice(OffsetReset), default.reset, problems),
    )


def group_read(given: Mapping[str, Entry], problems: Problems) -> str | None:
    """Return the group that another vendor's sink was given for its offsets; None where Connect named it."""
    if GROUP not in given:
        return None
    return _chosen(given[GROUP], names.GROUP_NAME, None, problems)


def read_warnings(given: Mapping[str, Entry], settings: ReadSettings) -> tuple[str, ...]:
    """Return what the operator may not have meant."""
    if settings.isolation is IsolationLevel.READ_COMMITTED:
        return ()
    option = f"{given[ISOLATION].spelled} = {settings.isolation}"
    costs = (
        "records of transactions that are aborted, or not ended yet, are archived like any other, and no "
        "object tells them apart; without it only committed records are"
    )
    return (f"{option}: {costs}",)


def _chosen(entry: Entry | None, form: Form[T], default: D, problems: Problems) -> T | D:
    if entry is None:
        return default
    try:
        return form.parse(entry.text)
    except FormError:
        problems.add(entry.spelled, f"expected {form.expected}", entry.shown)
        return default


_TIMEOUT: Final = "transaction.timeout.ms"
_HEARTBEAT: Final = "heartbeat.interval.ms"
_QUEUE: Final = "queue.buffering.max.kbytes"
_DELIVERY: Final = ("delivery.timeout.ms", "message.timeout.ms")
_LINGER: Final = ("linger.ms", "queue.buffering.max.ms")
_COMPRESSION: Final = ("compression.type", "compression.codec")
_NUMBER: Final = re.compile(
    r"(?!sasl\.).*[._](ms|bytes|kbytes|messages|level|ttl|fails|threshold)|batch\.size|linger\.ms"
)


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
    "message.max.bytes": integer(1_000, 1_000_000_000, unit="bytes"),
    "max.request.size": integer(1_000, 1_000_000_000, unit="bytes"),
}


def _without_ends(name: str, text: str) -> str:
    """A value as Kafka's classes take it; librdkafka's password keeps blanks, but no line end."""
    if name in PEM:
        return text
    return text.rstrip("\r\n") if name == "sasl.password" else trimmed(text)


def translated(
    role: Role, given: Mapping[str, Entry], *, read_bytes: ReadBytes, problems: Problems
) -> dict[str, str]:
    """Return librdkafka's properties for one kind of client; what cannot be translated becomes a problem.

    Blocks for reading a PKCS12 trust store.
    """
    into = Translation(problems)
    given = {name: replace(entry, text=_without_ends(name, entry.text)) for name, entry in given.items()}
    put_login(given, into)
    put_trust_store(given, read_bytes, into)
    put_key_store(given, into)
    for name, entry in given.items():
        if name not in CONSUMED and name not in names.STORES:
            _put(role, name, entry, into)
    return into.result()


def _put(role: Role, name: str, entry: Entry, into: Translation) -> None:
    if name in names.DECIDED_HERE:
        if entry.text.strip().lower() not in names.DECIDED_HERE[name]:
            into.refuse(entry, "would weaken the guarantee; Headrace decides it itself: remove it")
    elif name in names.DECIDED_ELSEWHERE:
        into.refuse(entry, f"cannot differ by client; {names.DECIDED_ELSEWHERE[name]} instead")
    elif not _has_form(name, entry, into):
        return
    elif name in _SPECIAL:
        _SPECIAL[name](entry, into)
    elif (renamed := names.RENAMED[role].get(name) or names.RENAMED_FOR_ALL.get(name)) is not None:
        into.put(renamed, entry.text, entry)
    elif name in names.KNOWN[role]:
        into.put(name, entry.text, entry)
    else:
        _refuse_unknown(role, name, entry, into)


def _has_form(name: str, entry: Entry, into: Translation) -> bool:
    """Hold a value against what is known of it here; librdkafka checks the rest when a client is made."""
    form: Form[object] | None = BOUNDED.get(name)
    if form is None and name in _COMPRESSION:
        form = choice(Compressed)
    if form is None and _NUMBER.fullmatch(name):
        form = integer(-1)
    if form is None:
        return True
    if not form.takes(entry.text):
        into.refuse(entry, f"expected {form.expected}")
        return False
    return True


def _refuse_unknown(role: Role, name: str, entry: Entry, into: Translation) -> None:
    owners = [
        other
        for other in ("producer", "consumer")
        if name in names.KNOWN[other] | names.RENAMED[other].keys()
    ]
    if name in names.WITHOUT_COUNTERPART:
        into.refuse(entry, names.WITHOUT_COUNTERPART[name])
    elif owners:
        into.refuse(entry, f"is a property of {owners[0]}s, not of {role}s")
    else:
        close = property_like(role, name) if len(into.problems) < HINTED else None
        # The value is not told: it may be the secret of a misspelled property.
        into.problems.add(
            entry.spelled,
            f"is not a property of librdkafka; {did_you_mean(close, otherwise='remove it')}",
        )


def _put_endpoint_check(entry: Entry, into: Translation) -> None:
    # Java switches the check of the broker's name off with an empty text, librdkafka with none.
    value = entry.text.strip().lower() or "none"
    if value in {"none", "https"}:
        into.put("ssl.endpoint.identification.algorithm", value, entry)
    else:
        into.refuse(entry, "expected https, or empty for no check of the broker's name")


def _put_buffer_memory(entry: Entry, into: Translation) -> None:
    form = integer(1_024, 2**31 - 1, unit="bytes")
    try:
        into.put(_QUEUE, str(form.parse(entry.text) // 1_024), entry)
    except FormError:
        into.refuse(entry, f"expected {form.expected}")


def _put_ciphers(entry: Entry, into: Translation) -> None:
    if "_WITH_" in entry.text:
        into.refuse(entry, "expected OpenSSL's names of cipher suites, such as ECDHE-RSA-AES256-GCM-SHA384")
    else:
        into.put("ssl.cipher.suites", entry.text, entry)


def _put_buffer_size(name: str) -> Callable[[Entry, Translation], None]:
    def put(entry: Entry, into: Translation) -> None:
        # Java's -1 is the system's size, which librdkafka writes as 0.
        into.put(name, "0" if entry.text.strip() == "-1" else entry.text, entry)

    return put


def _put_pem(name: str) -> Callable[[Entry, Translation], None]:
    return lambda entry, into: into.put(name, with_line_breaks(entry.text), entry)


_SPECIAL: Final[dict[str, Callable[[Entry, Translation], None]]] = {
    "ssl.endpoint.identification.algorithm": _put_endpoint_check,
    "ssl.cipher.suites": _put_ciphers,
    "buffer.memory": _put_buffer_memory,
    **{name: _put_pem(name) for name in INLINE},
    **{java: _put_buffer_size(own) for java, own in names.BUFFER_SIZES.items()},
}


# -- The properties of the three kinds of Kafka client, from the layers of a configuration -------------------

ROLES: Final[tuple[Role, ...]] = get_args(Role)
_SHARED: Final = ("security.protocol", "sasl.", "ssl.")
# What goes around a record in a request.
_AROUND_A_RECORD: Final = 65_536
# From the end of a transaction's interval to its commit, retries of the broker included.
_COMMIT_TIME_MS: Final = 5_000


def layered(role: Role, gathered: Gathered) -> dict[str, Entry]:
    """Return the entries for one kind of client by its own property names, the nearest layer winning."""
    entries = gathered.entries
    worker = gathered.worker
    return {
        **_shared(worker),
        **{name.removeprefix(f"{role}."): one for name, one in worker.items() if name.startswith(f"{role}.")},
        **_shared(entries),
        **{
            name.removeprefix(f"{role}.override."): one
            for name, one in entries.items()
            if name.startswith(f"{role}.override.")
        },
    }


def _shared(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    return {name: entry for name, entry in entries.items() if name.startswith(_SHARED)}


def of_worker(gathered: Gathered, *, is_sink: bool) -> dict[str, Entry]:
    """Return what clients have of a worker's file, by the names that a configuration of its own has for it.

    Without the group, of which a name is made, and without what sources pass over.
    """
    found = {}
    for name, entry in gathered.worker.items():
        role, _, rest = name.partition(".")
        own = name if name.startswith(_SHARED) else f"{role}.override.{rest}"
        is_needless = rest == GROUP or (rest in NAMES and not is_sink)
        # What a connector says of all its clients wins over what a worker says of one kind.
        if not is_needless and not {own, rest} & gathered.entries.keys():
            found[own] = entry
    return found


def client_properties(
    gathered: Gathered,
    values: Values,
    *,
    is_sink: bool,
    read_bytes: ReadBytes,
    problems: Problems,
    takes_over: bool = False,
) -> dict[Role, dict[str, str]]:
    """Return librdkafka's properties of each kind of client, with what other options say of them.

    `takes_over`: it is another vendor's sink, of which `group_read` reads the group.
    """
    found = {}
    for role in ROLES:
        given = layered(role, gathered)
        if role == "consumer":
            given = _without_reading(given, gathered, is_sink=is_sink)
            if takes_over or given.get(GROUP) in gathered.worker.values():
                given.pop(GROUP, None)
        found[role] = translated(role, given, read_bytes=read_bytes, problems=problems)
        if role == "producer":
            _add_for_producer(found[role], given, values)
        elif role == "consumer":
            _add_for_consumer(found[role], given, values)
        if IAM in found[role]:
            _refuse_anonymous(values)
        if values.are_good(connection_options.BOOTSTRAP_SERVERS):
            found[role]["bootstrap.servers"] = values[connection_options.BOOTSTRAP_SERVERS]
    return found


def _refuse_anonymous(values: Values) -> None:
    """Note that nothing can be signed without credentials."""
    option = reading_options.PROVIDER_CLASS
    if values.are_good(option) and values[option] is CredentialsProvider.ANONYMOUS:
        values.refuse(option, "has nothing to sign Kafka's log-in by AWS IAM with; name another")


def _without_reading(given: dict[str, Entry], gathered: Gathered, *, is_sink: bool) -> dict[str, Entry]:
    """What is left where `headrace.options.client_translation` has decided how a sink reads.

    A worker's file gives these to the sinks among its connectors: a source passes over them.
    """
    of_worker = gathered.worker.values()
    return {
        name: entry
        for name, entry in given.items()
        if name not in NAMES or not (is_sink or entry in of_worker)
    }


def _add_for_producer(found: dict[str, str], given: Mapping[str, Entry], values: Values) -> None:
    _bound_transactions(found, given, values)
    if values.are_good(connection_options.PARTITIONER):
        found["partitioner"] = values[connection_options.PARTITIONER].value
    if values.are_good(record_options.RECORD_MAX_BYTES):
        _hold_a_record(values[record_options.RECORD_MAX_BYTES], found, given, values.problems)


def _bound_transactions(found: dict[str, str], given: Mapping[str, Entry], values: Values) -> None:
    """Set the timeout that brokers have for a transaction; what would outlast it is a problem."""
    asked = int(found.get(_TIMEOUT, names.TRANSACTION_TIMEOUT_MS))
    timeout = min(asked, names.TRANSACTION_TIMEOUT_MS)
    found[_TIMEOUT] = str(timeout)
    _hold_lingering(found, given, values.problems)
    if not _has_transactions(values):
        # Records have none; those of the ledger are bounded where their producers are made.
        return
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
            values.problems.add(given[name].spelled, f"must not exceed {limit}{tail}", given[name].shown)


def _hold_lingering(found: dict[str, str], given: Mapping[str, Entry], problems: Problems) -> None:
    """Note a delivery that would time out before records are sent, with which no producer is made."""
    for name, linger in product(_DELIVERY, _LINGER):
        if {name, linger} <= found.keys() and 0 < int(found[name]) <= int(found[linger]):
            message = f"must be above {given[linger].spelled} ({given[linger].shown})"
            problems.add(given[name].spelled, message, given[name].shown)


def _has_transactions(values: Values) -> bool:
    option = connection_options.EXACTLY_ONCE
    return not values.are_good(option) or values[option] is ExactlyOnce.REQUIRED


def timeout_warnings(gathered: Gathered, values: Values) -> tuple[str, ...]:
    """Return which timeouts are cut to the most that the protocol has. Of good options."""
    found = []
    bounds: list[tuple[Role, str, int, str]] = [
        ("consumer", _HEARTBEAT, names.HEARTBEAT_MS, "a standby would notice later that the leader has left")
    ]
    if _has_transactions(values):
        costs = "an abandoned transaction would hold read-committed consumers back for longer"
        bounds.append(("producer", _TIMEOUT, names.TRANSACTION_TIMEOUT_MS, costs))
    for role, name, most, costs in bounds:
        given = layered(role, gathered).get(name)
        if given is not None and int(given.text) > most:
            found.append(f"{given.spelled} = {given.shown}: counts as {most}; with more, {costs}")
    return tuple(found)


def _hold_a_record(
    record_bytes: int, found: dict[str, str], given: Mapping[str, Entry], problems: Problems
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
            problems.add(
                given[name].spelled,
                f"must be {least * 1_024 if name == 'buffer.memory' else least:,} at least: record.max.bytes "
                f"and {_AROUND_A_RECORD:,} around a record",
                given[name].shown,
            )


def _add_for_consumer(found: dict[str, str], given: Mapping[str, Entry], values: Values) -> None:
    if not values.are_good(connection_options.LEAD_SESSION_TIMEOUT):
        return
    lead = values[connection_options.LEAD_SESSION_TIMEOUT]
    session = int(found.setdefault("session.timeout.ms", str(lead)))
    if values.is_given(connection_options.LEAD_SESSION_TIMEOUT) and session != lead:
        values.problems.add(
            given["session.timeout.ms"].spelled,
            "says otherwise than lead.session.timeout.ms; keep one of them",
            given["session.timeout.ms"].shown,
        )
    heartbeat = given.get(_HEARTBEAT)
    if heartbeat is not None and int(found.get(_HEARTBEAT, "0")) * 3 > session:
        values.problems.add(
            heartbeat.spelled, f"must be a third of the session timeout ({session}) at most", heartbeat.shown
        )
