"""The properties of the three kinds of Kafka client, from the layers of a configuration."""

from collections.abc import Mapping
from typing import Final, get_args

from headrace.options import sink_reading
from headrace.options.choices import CredentialsProvider
from headrace.options.client_translation import TRANSACTION_TIMEOUT_MS, translated
from headrace.options.declarations import connection_options, reading_options, record_options
from headrace.options.given import Entry
from headrace.options.merge import Gathered
from headrace.options.problems import Problems
from headrace.options.settings import Role
from headrace.options.tls import ReadBytes
from headrace.options.token_logins import IAM
from headrace.options.values import Values

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


def client_properties(
    gathered: Gathered, values: Values, *, is_sink: bool, read_bytes: ReadBytes, problems: Problems
) -> dict[Role, dict[str, str]]:
    """Return librdkafka's properties of each kind of client, with what other options say of them."""
    found = {}
    for role in ROLES:
        given = layered(role, gathered)
        if role == "consumer":
            given = _without_reading(given, gathered, is_sink=is_sink)
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
    """What is left where `headrace.options.sink_reading` has decided how a sink reads.

    A worker's file gives these to the sinks among its connectors: a source passes over them.
    """
    of_worker = gathered.worker.values()
    return {
        name: entry
        for name, entry in given.items()
        if name not in sink_reading.NAMES or not (is_sink or entry in of_worker)
    }


def _add_for_producer(found: dict[str, str], given: Mapping[str, Entry], values: Values) -> None:
    timeout = int(found.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))
    found["transaction.timeout.ms"] = str(timeout)
    if values.are_good(record_options.BOUNDARY_INTERVAL):
        interval = values[record_options.BOUNDARY_INTERVAL]
        if interval + _COMMIT_TIME_MS > timeout:
            values.refuse(
                record_options.BOUNDARY_INTERVAL,
                f"must be {_COMMIT_TIME_MS:,} ms at least below producer.override.transaction.timeout.ms "
                f"({timeout}), or the broker aborts transactions that are about to commit",
            )
    for name in ("delivery.timeout.ms", "message.timeout.ms"):
        if name in found and int(found[name]) > timeout:
            values.problems.add(
                given[name].spelled,
                f"must not exceed producer.override.transaction.timeout.ms ({timeout})",
                given[name].shown,
            )
    if values.are_good(connection_options.PARTITIONER):
        found["partitioner"] = values[connection_options.PARTITIONER].value
    if values.are_good(record_options.RECORD_MAX_BYTES):
        needed = values[record_options.RECORD_MAX_BYTES] + _AROUND_A_RECORD
        size = int(found.setdefault("message.max.bytes", str(needed)))
        if size < needed:
            name = "max.request.size" if "max.request.size" in given else "message.max.bytes"
            values.problems.add(
                given[name].spelled,
                f"must be {needed:,} at least: record.max.bytes and {_AROUND_A_RECORD:,} around a record",
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
    heartbeat = given.get("heartbeat.interval.ms")
    if heartbeat is not None and int(found.get("heartbeat.interval.ms", "0")) * 3 > session:
        values.problems.add(
            heartbeat.spelled, f"must be a third of the session timeout ({session}) at most", heartbeat.shown
        )
