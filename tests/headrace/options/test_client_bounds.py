"""What is accepted of client options makes each client, and librdkafka's own ends are those told here."""

import json
import logging
from itertools import chain

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from headrace.kafka.consumer.partition_reader import reader_properties
from headrace.kafka.kafka_clients import (
    new_admin,
    new_consumer,
    new_idempotent_producer,
    new_ledger_consumer,
    new_transactional_producer,
)
from headrace.kafka.producer.window import producer_properties
from headrace.options import SettingsError
from headrace.options.client_bounds import BOUNDED, CHOICES, RANGES
from headrace.options.client_names import CONTEXTS, KNOWN, OF_CONSUMERS, SWITCHES
from headrace.options.settings import Role, Settings
from headrace.vendors.load import load
from tests.headrace.options.loading import load_with, no_file, problems_with

_LOGGER = logging.getLogger("tests.client_bounds")
_LOGGER.propagate = False
_LOGGER.addHandler(logging.NullHandler())
_OFF = {"exactly.once.support": "disabled"}
_N = "a whole number"


def make_all(settings: Settings, role: Role) -> None:
    """Make each client of a kind that a process of these settings, or a task of its slots, would."""
    properties = settings.kafka.client(role)
    if role == "producer":
        for each in (properties, producer_properties(properties)):
            new_transactional_producer(each, "driver")
            if not settings.kafka.exactly_once:
                new_idempotent_producer(each)
    elif role == "consumer":
        new_consumer(properties, {"group.id": "g"}).close()
        if settings.sink is not None:
            new_consumer(properties, reader_properties(properties, "g", 16 << 20, "read_committed")).close()
        new_ledger_consumer(properties, group="g", isolation="read_committed", is_patient=True).close()
    else:
        new_admin(properties)


def is_taken(name: str, value: str) -> bool:
    """Whether librdkafka makes a client with a property."""
    # Of two that meet, the other one as wide as it can be.
    others = {"reconnect.backoff.ms": {"reconnect.backoff.max.ms": "3600000"}}
    others["reconnect.backoff.max.ms"] = {"reconnect.backoff.ms": "0"}
    ours = {"logger": _LOGGER, "bootstrap.servers": "127.0.0.1:1", **others.get(name, {})}
    try:
        if name in OF_CONSUMERS:
            Consumer({"group.id": "g", **ours, name: value}).close()
        else:
            Producer({**ours, "message.timeout.ms": "0", "acks": "all", name: value})
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("name", RANGES)
def test_ends_are_librdkafka_s(name: str) -> None:
    """Beyond an int of C it would take another number than the one that is given."""
    low, high = RANGES[name]

    assert [is_taken(name, str(each)) for each in (low - 1, low, high)] == [False, True, True]
    if high < 2**31 - 1:
        assert not is_taken(name, str(high + 1))


@pytest.mark.parametrize(
    ("name", "values"), [*CHOICES.items(), *((name, ("true", "false")) for name in sorted(SWITCHES))]
)
def test_choices_are_librdkafka_s(name: str, values: tuple[str, ...]) -> None:
    """All of them are taken, and nothing like them."""
    assert all(is_taken(name, value) for value in values)
    assert not is_taken(name, f"{values[0]}x")


def test_contexts_of_debug_are_librdkafka_s() -> None:
    """Each by itself."""
    assert all(is_taken("debug", f"-{context}") for context in CONTEXTS)
    assert not is_taken("debug", "all,verbose")


def test_every_property_of_a_number_has_its_ends() -> None:
    """A text that is no number is refused by librdkafka for these alone."""
    known = set(chain.from_iterable(KNOWN.values())) - CHOICES.keys() - SWITCHES
    untested = {"debug", "security.protocol", "sasl.mechanisms", "ssl.endpoint.identification.algorithm"}
    paths = {name for name in known if name.endswith((".location", ".file"))}
    numbers = {name for name in known - untested - paths if not is_taken(name, "x")}

    assert numbers == RANGES.keys() | (BOUNDED.keys() & known)


@pytest.mark.parametrize("once", [{}, _OFF])
@pytest.mark.parametrize(
    ("role", "name", "values"),
    [
        ("producer", "linger.ms", ("0", "299999", "300000", "900000", "900001", str(2**62))),
        ("producer", "queue.buffering.max.ms", ("0", "300000", "900000")),
        ("producer", "request.timeout.ms", ("1", "900001", str(2**31 - 1))),
        ("producer", "batch.size", ("0", "1")),
        ("producer", "max.request.size", (str(2**31 - 1),)),
        ("producer", "buffer.memory", (str(2**40),)),
        ("producer", "compression.lz4.level", ("1", "17")),
        ("producer", "compression.zstd.level", ("-131072", "22")),
        ("consumer", "request.timeout.ms", ("1", "300001")),
        ("consumer", "fetch.max.wait.ms", ("0", "300001")),
        ("consumer", "fetch.min.bytes", ("0", "1", str(2**31 - 1))),
        ("consumer", "fetch.max.bytes", ("0", "999999", "200000000", str(2**31 - 1))),
        ("consumer", "max.partition.fetch.bytes", ("0", str(2**31 - 1))),
        *(
            (role, name, values)
            for role in ("producer", "consumer", "admin")
            for name, values in {
                "socket.timeout.ms": ("10", "300000", "400000"),
                "reconnect.backoff.ms": ("0", "10001", "3600000", "3600001"),
                "reconnect.backoff.max.ms": ("0", "50", str(2**62)),
                "retry.backoff.ms": ("0", "300001"),
                "retry.backoff.max.ms": ("0", "300001"),
                "metadata.max.age.ms": ("0", str(2**63 - 1)),
                "connections.max.idle.ms": ("-1", "0", str(2**63 - 1)),
                "socket.connection.setup.timeout.ms": ("0", "999", str(2**63 - 1)),
                "send.buffer.bytes": ("-1", str(2**31 - 1)),
                "receive.buffer.bytes": ("-1", str(2**31 - 1)),
                "client.dns.lookup": ("USE_ALL_DNS_IPS",),
                "socket.keepalive.enable": ("True", "0"),
                "debug": ("conf , broker", "+broker,-topic"),
            }.items()
        ),
    ],
)  # fmt: skip
def test_what_java_s_clients_take_makes_every_client(
    role: Role, name: str, values: tuple[str, ...], once: dict[str, str | None]
) -> None:
    """In its place librdkafka has the nearest that it takes: a slot must not be what finds it out."""
    for value in values:
        make_all(load_with({**once, f"{role}.override.{name}": value}), role)


@pytest.mark.parametrize("once", [{}, _OFF])
@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("producer.override.linger.ms", "-1", f"{_N} of milliseconds from 0 to 900,000"),
        ("producer.override.queue.buffering.max.ms", "900001", f"{_N} of milliseconds from 0 to 900,000"),
        ("producer.override.linger.ms", "soon", f"{_N} of milliseconds from 0 to 900,000"),
        ("producer.override.socket.timeout.ms", "-1", f"{_N} of milliseconds from 10 to 300,000"),
        ("admin.override.socket.timeout.ms", "0", f"{_N} of milliseconds from 10 to 300,000"),
        ("producer.override.request.timeout.ms", "0", f"{_N} of milliseconds from 1 to 900,000"),
        ("consumer.override.socket.timeout.ms", "x", f"{_N} of milliseconds from 10 to 300,000"),
        ("admin.override.statistics.interval.ms", "-1", f"{_N} of milliseconds from 0 to 86,400,000"),
        ("producer.override.batch.num.messages", "0", f"{_N} from 1 to 1,000,000"),
        ("producer.override.compression.gzip.level", "13", f"{_N} from -1 to 12"),
        ("producer.override.send.buffer.bytes", "-2", f"{_N} of bytes from 0 to 100,000,000"),
        ("consumer.override.queued.max.messages.kbytes", "0", f"{_N} of kibibytes from 1 to 2,097,151"),
        ("consumer.override.check.crcs", "yes", "true or false"),
        ("producer.override.client.dns.lookup", "default", " or ".join(CHOICES["client.dns.lookup"])),
        ("admin.override.broker.address.family", "v5", "any, v4 or v6"),
        ("sasl.oauthbearer.assertion.claim.exp.seconds", "0", f"{_N} of seconds from 1 to 2,147,483,647"),
    ],
)  # fmt: skip
def test_what_no_client_takes_is_told_with_its_range(
    option: str, value: str, sentence: str, once: dict[str, str | None]
) -> None:
    """And `lint` ends with it."""
    assert [str(each) for each in problems_with({**once, option: value})] == [
        f"{option} = {value!r}: expected {sentence}"
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"producer.override.linger.ms": "1000000"},
            "producer.override.linger.ms = 1000000: counts as 900000, the most that librdkafka takes",
            id="most",
        ),
        pytest.param(
            {"consumer.override.fetch.min.bytes": "0"},
            "consumer.override.fetch.min.bytes = 0: counts as 1, the least that librdkafka takes",
            id="least",
        ),
        pytest.param(
            {"producer.override.compression.zstd.level": "-5"},
            "producer.override.compression.zstd.level = -5: counts as 1, the least that librdkafka takes",
            id="level",
        ),
        pytest.param(
            {"admin.override.reconnect.backoff.ms": "5000", "admin.override.reconnect.backoff.max.ms": "50"},
            "admin.override.reconnect.backoff.ms = 5000: counts as 50, which is "
            "admin.override.reconnect.backoff.max.ms",
            id="first and last",
        ),
    ],
)
def test_what_counts_as_something_else_is_a_warning(changes: dict[str, str], expected: str) -> None:
    """With the number that counts."""
    assert expected in load_with(changes).warnings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"connections.max.idle.ms": "-1"}, {"connections.max.idle.ms": "0"}),
        ({"reconnect.backoff.ms": "20000"}, {"reconnect.backoff.max.ms": "20000"}),
        ({"reconnect.backoff.max.ms": "50"}, {"reconnect.backoff.ms": "50"}),
        ({"linger.ms": "300000"}, {"message.timeout.ms": "330000"}),
        ({"linger.ms": "300000", "delivery.timeout.ms": "400000"}, {"delivery.timeout.ms": "400000"}),
    ],
)
def test_what_means_the_same_is_taken_without_a_word(given: dict[str, str], expected: dict[str, str]) -> None:
    """As Java's clients have it."""
    settings = load_with({**_OFF, **{f"producer.override.{name}": value for name, value in given.items()}})

    assert settings.kafka.client("producer").items() >= expected.items()
    assert not settings.warnings


@pytest.mark.parametrize(
    ("given", "least", "whose"),
    [
        ({}, "52,429,312", "fetch.max.bytes (52,428,800 unless set)"),
        ({"fetch.max.bytes": "60000000"}, "60,000,512", "consumer.override.fetch.max.bytes"),
        (
            {"queued.max.messages.kbytes": "40000"},
            "40,960,512",
            "consumer.override.queued.max.messages.kbytes",
        ),
        (
            {"queued.max.messages.kbytes": "1024"},
            "33,554,944",
            "what is fetched of the ledger (33,554,432 unless fetch.max.bytes is set)",
        ),
        ({"fetch.max.bytes": "2000000"}, "2,000,512", "consumer.override.fetch.max.bytes"),
    ],
)
def test_an_answer_must_hold_what_is_fetched(given: dict[str, str], least: str, whose: str) -> None:
    """Else no consumer is made."""
    changes = {f"consumer.override.{name}": value for name, value in given.items()}
    option = "consumer.override.receive.message.max.bytes"

    too_little = str(int(least.replace(",", "")) - 1)
    assert [str(each) for each in problems_with({**changes, option: too_little})] == [
        f"{option} = '{too_little}': must be {least} at least: {whose} and 512 around it"
    ]
    make_all(load_with({**changes, option: least.replace(",", "")}), "consumer")


def test_an_answer_must_hold_what_a_sink_s_readers_fetch() -> None:
    """Which is bounded by our own properties: each slot's task failed."""
    sink = {
        "name": "orders",
        "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "bootstrap.servers": "127.0.0.1:9092",
        "aws.s3.bucket.name": "archive",
        "aws.s3.region": "eu-west-1",
        "topics": "orders",
        "format.output.type": "jsonl",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.fetch.max.bytes": "2000000",
    }
    option = "consumer.override.receive.message.max.bytes"

    def settings(received: str) -> Settings:
        text = json.dumps({**sink, option: received})
        return load(text, kind="json", environment={}, read_file=no_file)

    with pytest.raises(SettingsError, match="must be 4,194,816 at least: what a sink's readers fetch"):
        settings("4194815")
    make_all(settings("4194816"), "consumer")
