import re
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.kafka.kafka_errors import is_unanswered, require_leaders, translate, why_refused
from headrace.model.errors import (
    AccessDenied,
    Fenced,
    HeadraceError,
    RecordRefused,
    TopicMissing,
    TopicWithoutLeader,
    TransactionAborted,
    Unavailable,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(KafkaError(KafkaError._FENCED, fatal=True), Fenced, id="newer-producer"),
        pytest.param(KafkaError(KafkaError.PRODUCER_FENCED), Fenced, id="newer-producer-by-broker"),
        pytest.param(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH), Fenced, id="older-epoch"),
        pytest.param(
            KafkaError(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True), Fenced, id="old-generation"
        ),
        pytest.param(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, txn_requires_abort=True), Fenced, id="gone"),
        pytest.param(
            KafkaError(KafkaError.FENCED_INSTANCE_ID, txn_requires_abort=True), Fenced, id="rotated"
        ),
        pytest.param(
            KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, txn_requires_abort=True), TopicMissing, id="no-topic"
        ),
        pytest.param(
            KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, txn_requires_abort=True), RecordRefused, id="too-large"
        ),
        pytest.param(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), AccessDenied, id="no-right"),
        pytest.param(
            KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, txn_requires_abort=True),
            TransactionAborted,
            id="abort",
        ),
        pytest.param(
            KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, fatal=True), TransactionAborted, id="fatal"
        ),
        pytest.param(
            KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT, fatal=True), Unavailable, id="timeout-too-long"
        ),
        pytest.param(KafkaError(KafkaError._TRANSPORT, retriable=True), Unavailable, id="broker-away"),
        pytest.param(KafkaError(KafkaError._TIMED_OUT), Unavailable, id="timeout"),
    ],
)
def test_errors_are_sorted_by_who_must_act(error: KafkaError, kind: type[HeadraceError]) -> None:
    """The code decides where it is listed, else the flags; bare or in its exception, never the text."""
    assert type(translate(error, what="topic 't'")) is kind
    assert type(translate(KafkaException(error), what="topic 't'")) is kind


def test_a_translated_error_names_the_thing_and_the_remedy() -> None:
    """What was tried, what Kafka said, and what to do."""
    found = translate(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), what="consumer group 'g'")
    assert str(found) == (
        "consumer group 'g': Broker: Group authorization failed (GROUP_AUTHORIZATION_FAILED). "
        "Give this user the ACLs that docs/security.md lists."
    )
    assert str(translate(KafkaError(KafkaError._SSL), what="the cluster")).endswith(
        "Correct security.protocol, sasl.* and ssl.*."
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(KafkaError(KafkaError._TIMED_OUT), True, id="timeout"),
        pytest.param(KafkaError(KafkaError._TRANSPORT, retriable=True), True, id="retriable"),
        pytest.param(KafkaError(KafkaError._TIMED_OUT, txn_requires_abort=True), False, id="aborts"),
        pytest.param(KafkaError(KafkaError._FENCED, fatal=True, retriable=True), False, id="fatal"),
        pytest.param(KafkaError(KafkaError.ILLEGAL_GENERATION), False, id="refused"),
    ],
)
def test_only_an_unanswered_call_is_made_again(error: KafkaError, expected: bool) -> None:
    """An error that decides something is never mistaken for silence."""
    assert is_unanswered(error) is expected


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError.INVALID_RECORD, "cleanup.policy=delete"),
        (KafkaError.INVALID_TIMESTAMP, "message.timestamp.before.max.ms"),
        (KafkaError.POLICY_VIOLATION, "a policy of the brokers"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "max.message.bytes"),
    ],
)
def test_a_refused_record_comes_with_what_its_topic_wants(code: int, says: str) -> None:
    """By its code, in the sentence of its bad record."""
    cause = KafkaException(KafkaError(code, txn_requires_abort=True))
    refused = translate(cause, what="orders-0")
    assert isinstance(refused, RecordRefused)
    refused.__cause__ = cause
    assert says in why_refused(refused)
    assert KafkaError(code).name() in why_refused(refused)


def test_a_transaction_timeout_that_brokers_refuse_comes_with_the_option() -> None:
    """It is theirs or ours to change; their transaction log has nothing to do with it."""
    found = translate(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT, fatal=True), what="id 'x'")
    assert "producer.override.transaction.timeout.ms" in str(found)
    assert "transaction.max.timeout.ms" in str(found)


@pytest.mark.parametrize(
    ("leaders", "says"),
    [
        ((1, 2, 1), None),
        ((), None),
        ((1, None, 1), "its partition 1 has no leader"),
        ((-1, 2, None), "its partition 0, 2 has no leader"),
        ((None,) * 7, "its partition 0, 1, 2, 3, 4, .. has no leader"),
    ],
)
def test_a_topic_needs_a_leader_of_each_partition(leaders: tuple[int | None, ...], says: str | None) -> None:
    """As brokers describe it: none at all, or a node without a number."""
    partitions = [
        SimpleNamespace(id=number, leader=None if leader is None else SimpleNamespace(id=leader))
        for number, leader in enumerate(leaders)
    ]
    if says is None:
        require_leaders("orders", partitions)
        return
    with pytest.raises(TopicWithoutLeader, match=re.escape(says)):
        require_leaders("orders", partitions)
