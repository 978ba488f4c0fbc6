"""What a configuration says of Kafka clients, in Java's words or librdkafka's, to librdkafka's properties."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from headrace.options import client_names as names
from headrace.options.given import Entry
from headrace.options.problems import Problems
from headrace.options.sasl import CONSUMED, put_login
from headrace.options.settings import Role
from headrace.options.tls import ReadBytes, put_key_store, put_trust_store
from headrace.options.translation import Translation
from headrace.options.value_types import Form, FormError, choice, integer

TRANSACTION_TIMEOUT_MS: Final = 15_000

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
    "transaction.timeout.ms": integer(6_000, 60_000, unit="milliseconds"),
    "session.timeout.ms": integer(6_000, 60_000, unit="milliseconds"),
    "heartbeat.interval.ms": integer(100, 20_000, unit="milliseconds"),
    "max.poll.interval.ms": integer(60_000, 86_400_000, unit="milliseconds"),
    "max.in.flight.requests.per.connection": integer(1, 5),
    "max.in.flight": integer(1, 5),
    "retries": integer(1),
    "message.send.max.retries": integer(1),
    "message.max.bytes": integer(1_000, 1_000_000_000, unit="bytes"),
    "max.request.size": integer(1_000, 1_000_000_000, unit="bytes"),
}


def translated(
    role: Role, given: Mapping[str, Entry], *, read_bytes: ReadBytes, problems: Problems
) -> dict[str, str]:
    """Return librdkafka's properties for one kind of client; what cannot be translated becomes a problem.

    Blocks for reading a PKCS12 trust store.
    """
    into = Translation(problems)
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
    try:
        form.parse(entry.text)
    except FormError:
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
        close = get_close_matches(name, [*names.KNOWN[role], *names.RENAMED[role]], n=1)
        # The value is not told: it may be the secret of a misspelled property.
        into.problems.add(
            entry.spelled,
            f"is no property of librdkafka{f'; did you mean {close[0]}?' if close else '; remove it'}",
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
        into.put("queue.buffering.max.kbytes", str(form.parse(entry.text) // 1_024), entry)
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


_SPECIAL: Final[dict[str, Callable[[Entry, Translation], None]]] = {
    "ssl.endpoint.identification.algorithm": _put_endpoint_check,
    "ssl.cipher.suites": _put_ciphers,
    "buffer.memory": _put_buffer_memory,
    **{java: _put_buffer_size(own) for java, own in names.BUFFER_SIZES.items()},
}
