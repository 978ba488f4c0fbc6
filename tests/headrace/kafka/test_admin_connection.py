"""Who shares an admin client, and when it ends. Nothing is asked of a broker here."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.kafka_clients import AdminConnection, shared_admin
from headrace.model.errors import Unavailable

# Nobody listens there.
HERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    """A client has to end with its last user: not whenever circles are looked for."""
    gc.disable()
    yield
    gc.enable()


def test_those_who_connect_alike_share_a_client() -> None:
    """However they come by their properties."""
    first = shared_admin(HERE)
    assert shared_admin(dict(reversed(HERE.items()))) is first
    assert shared_admin({**HERE, "client.id": "another"}) is not first


def test_a_client_ends_with_the_last_who_has_it() -> None:
    """At once; the next one is made anew."""
    # Alone with these properties: another test may have left an admin of `HERE` to the collector.
    properties = {**HERE, "client.id": "the last"}
    first, second = KafkaAdmin(properties), KafkaAdmin(properties, timeout=1.0)
    shared = weakref.ref(shared_admin(properties))
    del first
    assert shared() is not None
    del second
    assert shared() is None


def test_who_starts_after_certificates_were_renewed_uses_them(tmp_path: Path) -> None:
    """A client reads files once, when it is made; another connector may keep it for ever."""
    authority = tmp_path / "ca.pem"
    authority.write_text("one")
    properties = {**HERE, "security.protocol": "plaintext", "ssl.ca.location": str(authority)}
    before = shared_admin(properties)
    assert shared_admin(properties) is before
    authority.write_text("another, and longer")
    assert shared_admin(properties) is not before


def test_what_failed_before_a_question_is_not_its_trouble() -> None:
    """Lost brokers stay lost until one answers: librdkafka says so a single time."""
    connection = AdminConnection(HERE)
    connection._state.on_error(KafkaError(KafkaError._AUTHENTICATION))  # as librdkafka does
    connection._state.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))  # as above
    trouble = connection._state.trouble  # when it was
    assert trouble is not None
    assert connection.trouble_since(trouble[0]) is trouble[1]
    assert connection.trouble_since(trouble[0] + 0.001) is None
    assert connection.is_alone
    connection.answered()
    assert not connection.is_alone


def test_a_group_of_brokers_that_are_away_says_which_and_why() -> None:
    """As a topic does: `status` said that it had timed out, and no more."""
    with pytest.raises(Unavailable, match="consumer group 'g' could not be described") as caught:
        KafkaAdmin({**HERE, "client.id": "of a group"}, timeout=1.0).group_topics("g")

    assert "127.0.0.1:1" in str(caught.value)
    assert "Connection refused" in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "hint"),
    [
        (None, "for PLAINTEXT (security.protocol), not for TLS"),
        ("sasl_plaintext", "for SASL_PLAINTEXT (security.protocol), not for TLS"),
        ("ssl", None),
        ("sasl_ssl", None),
    ],
)
def test_a_peer_that_does_not_answer(protocol: str | None, hint: str | None) -> None:
    """A listener for TLS closes connections without it, and only those: with TLS it is not the protocol."""
    log_in = {"sasl.mechanisms": "PLAIN", "sasl.username": "me", "sasl.password": "x"}
    given = {} if protocol is None else {"security.protocol": protocol}
    given |= log_in if "sasl" in str(protocol) else {}
    admin = KafkaAdmin(HERE | given, timeout=1.0)
    # As librdkafka does for a peer that is silent, or closes.
    admin._connection._state.is_alone = True

    said = str(admin._unanswered("the cluster could not be described"))

    assert "does not answer" in said
    assert "security.protocol" not in said if hint is None else hint in said
