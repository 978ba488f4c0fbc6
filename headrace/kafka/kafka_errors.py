"""KafkaErrors to ours, by code and flags, never by text: in this one place, for the driver and for the tasks.

CommitUnknown   a commit that was not answered in time: neither done nor not done
ReadHeldBack    the end of the ledger is hidden below an open transaction
"""

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.model.errors import (
    AccessDenied,
    Fenced,
    HeadraceError,
    InvalidLedger,
    RecordRefused,
    TopicForbidden,
    TopicMissing,
    TopicWithoutLeader,
    TransactionAborted,
    Unavailable,
)


class CommitUnknown(HeadraceError):
    """A commit was not answered: only the ledger, read after a fence, knows whether it happened."""


class LedgerEndHidden(HeadraceError):
    """The ledger's end stays hidden below an open transaction: void and fence all slots, then read again."""


class LedgerCutOff(InvalidLedger):
    """The ledger does not have any more what was read of it, and what was decided by."""


NOT_YET: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""What brokers say for a moment after they have started; the admin client does not ask again by itself."""

# The first table that has the code wins; the flags decide about the rest.
_BY_CODE: Final[dict[int, type[HeadraceError]]] = {
    # A newer producer of the transactional id was initialised ..
    KafkaError._FENCED: Fenced,  # noqa: SLF001 - how the library names its local codes
    KafkaError.PRODUCER_FENCED: Fenced,
    KafkaError.INVALID_PRODUCER_EPOCH: Fenced,
    KafkaError.TRANSACTION_COORDINATOR_FENCED: Fenced,
    # .. or the group has moved on from the member and generation that the transaction carries.
    KafkaError.ILLEGAL_GENERATION: Fenced,
    KafkaError.UNKNOWN_MEMBER_ID: Fenced,
    KafkaError.FENCED_INSTANCE_ID: Fenced,
    KafkaError.UNKNOWN_TOPIC_OR_PART: TopicMissing,
    KafkaError.UNKNOWN_TOPIC_ID: TopicMissing,
    KafkaError._UNKNOWN_TOPIC: TopicMissing,  # noqa: SLF001 - as above
    KafkaError._UNKNOWN_PARTITION: TopicMissing,  # noqa: SLF001 - as above
    # The whole request is refused because of one record in it, which the broker does not name.
    KafkaError.MSG_SIZE_TOO_LARGE: RecordRefused,
    KafkaError.RECORD_LIST_TOO_LARGE: RecordRefused,
    KafkaError.INVALID_MSG_SIZE: RecordRefused,
    KafkaError.INVALID_MSG: RecordRefused,
    KafkaError.INVALID_RECORD: RecordRefused,
    KafkaError.INVALID_TIMESTAMP: RecordRefused,
    KafkaError.POLICY_VIOLATION: RecordRefused,
    # Of brokers whose setting may be changed at any time: nothing of ours is aborted by it.
    KafkaError.INVALID_TRANSACTION_TIMEOUT: Unavailable,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: AccessDenied,
    KafkaError.GROUP_AUTHORIZATION_FAILED: AccessDenied,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: AccessDenied,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AccessDenied,
    KafkaError.SASL_AUTHENTICATION_FAILED: AccessDenied,
    KafkaError._AUTHENTICATION: AccessDenied,  # noqa: SLF001 - as above
    KafkaError.UNSUPPORTED_SASL_MECHANISM: AccessDenied,
    KafkaError.SECURITY_DISABLED: AccessDenied,
}

_REMEDY: Final[dict[type[HeadraceError], str]] = {
    AccessDenied: "Give this user the ACLs that docs/security.md lists.",
    TopicMissing: "Create the topic or partition.",
    Unavailable: "Check bootstrap.servers and that the brokers answer.",
}


# Who the user is was not believed, or nothing could be said in secret: no ACL would help.
_LOG_IN: Final = frozenset(
    {
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - as above
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.SECURITY_DISABLED,
        KafkaError._SSL,  # noqa: SLF001 - as above
    }
)
_LOG_IN_REMEDY: Final = "Correct security.protocol, sasl.* and ssl.*."


def kafka_error(error: KafkaException | KafkaError) -> KafkaError:
    """The KafkaError that an exception carries, or the error itself."""
    if isinstance(error, KafkaException):
        carried: KafkaError = error.args[0]
        return carried
    return error


def kind_of(error: KafkaException | KafkaError) -> type[HeadraceError]:
    """The class of ours for this error: by its code, else TransactionAborted or Unavailable by its flags."""
    inner = kafka_error(error)
    by_code = _BY_CODE.get(inner.code())
    if by_code is not None:
        return by_code
    # A producer with a fatal error is of no further use either: its slot is initialised again.
    if inner.txn_requires_abort() or inner.fatal() or inner.code() == KafkaError._FATAL:  # noqa: SLF001 - as above
        return TransactionAborted
    return Unavailable


# What a broker may have against a record that fits, and what helps.
_REFUSALS: Final[dict[int, str]] = {
    KafkaError.INVALID_RECORD: (
        "a compacted topic takes no record without a key. Give records one (key.source), or set "
        "cleanup.policy=delete on the topic"
    ),
    KafkaError.INVALID_TIMESTAMP: (
        "its time is further from the brokers' clock than message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms of the topic allow. Raise them on the topic, or leave the time to "
        "the producer (record.timestamp=produce; of an archive restore.timestamp=produce)"
    ),
    KafkaError.POLICY_VIOLATION: "a policy of the brokers forbids it. Ask those who run them",
}
# What helps by the code alone, whatever class of ours the error is of.
_REMEDY_OF_CODE: Final[dict[int, str]] = {
    **dict.fromkeys(_LOG_IN, _LOG_IN_REMEDY),
    **{code: f"{why[0].upper()}{why[1:]}." for code, why in _REFUSALS.items()},
    KafkaError.INVALID_PRODUCER_ID_MAPPING: (
        "It was idle for longer than transactional.id.expiration.ms of the brokers, and is initialised again."
    ),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "Set producer.override.transaction.timeout.ms (6000 at least) to no more than "
        "transaction.max.timeout.ms of the brokers, or raise that."
    ),
}

CREATION_REMEDIES: Final = {
    KafkaError.INVALID_REPLICATION_FACTOR: (
        "Correct topic.creation.default.replication.factor (-1: the broker's default), or start more brokers."
    ),
    KafkaError.INVALID_PARTITIONS: "Correct topic.creation.default.partitions.",
    KafkaError.INVALID_CONFIG: "Create it by hand, with a configuration that the brokers take.",
    KafkaError.POLICY_VIOLATION: (
        "Correct topic.creation.default.*, or create it by hand: the brokers' create.topic.policy forbids it."
    ),
    KafkaError.TOPIC_EXCEPTION: "Kafka takes no topic of this name: correct topic, or file.name.template.",
}
"""What a broker finds wrong with a new topic itself, and what helps."""


# So many partitions are named.
_SHOWN: Final = 5
_TOO_LATE_REMEDY: Final = (
    "Brokers were away, or take records more slowly than they are sent (a quota, the line to them): less is "
    "sent at a time now."
)


def is_too_late(error: KafkaException | KafkaError) -> bool:
    """Whether records were not taken in the time that they have, so that their transaction is aborted."""
    inner = kafka_error(error)
    if inner.code() == KafkaError._MSG_TIMED_OUT:  # noqa: SLF001 - as above
        return True
    return inner.code() == KafkaError._TIMED_OUT and inner.txn_requires_abort()  # noqa: SLF001 - as above


def was_too_late(error: HeadraceError) -> bool:
    """The same of an error of ours, by its cause."""
    return isinstance(error.__cause__, KafkaException) and is_too_late(error.__cause__)


def translate(error: KafkaException | KafkaError, *, what: str) -> HeadraceError:
    """Our error for Kafka's. `what` names topic, transactional id or step, and begins the sentence.

    Unavailable is all that may pass by itself (a broker away, a timeout). Raise it `from` the cause.
    """
    inner = kafka_error(error)
    kind = kind_of(inner)
    sentence = f"{what}: {inner.str()} ({inner.name()})."
    remedy = _REMEDY_OF_CODE.get(inner.code(), _REMEDY.get(kind))
    if is_too_late(inner):
        remedy = _TOO_LATE_REMEDY
    return kind(sentence if remedy is None else f"{sentence} {remedy}")


def why_refused(error: RecordRefused) -> str:
    """What to append to `the broker refuses this record`: its code, and what it stands for with the fix."""
    cause = error.__cause__
    if not isinstance(cause, KafkaException):
        return ""
    inner = kafka_error(cause)
    why = _REFUSALS.get(inner.code(), "compare max.message.bytes of the topic, and of the brokers")
    return f" ({inner.name()}): {why}"


def is_topic_refused(error: BaseException | None) -> bool:
    """Whether brokers refuse a question about a topic, as this user may not describe it."""
    if not isinstance(error, KafkaException):
        return False
    return kafka_error(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def topic_forbidden(topic: str) -> TopicForbidden:
    """The error for a topic that this user may not write, or not even describe."""
    return TopicForbidden(
        f"The topic {topic!r} may not be written by this user (TOPIC_AUTHORIZATION_FAILED). Allow Write, "
        "Describe and DescribeConfigs on it (docs/security.md), or correct what names it "
        "(file.name.template, transforms, restore.topic.map).",
        topic=topic,
    )


def leaderless(partitions: Iterable[Any]) -> frozenset[int]:
    """The numbers of those of a topic's partitions, as brokers describe them, that have no leader."""
    return frozenset(one.id for one in partitions if one.leader is None or one.leader.id < 0)


def require_leaders(topic: str, partitions: Iterable[Any]) -> None:
    """TopicWithoutLeader where some of these partitions, as the brokers describe them, have no leader."""
    lost = sorted(leaderless(partitions))
    if lost:
        raise TopicWithoutLeader(
            f"The topic {topic!r} takes no records: its partition {', '.join(map(str, lost[:_SHOWN]))}"
            f"{', ..' if len(lost) > _SHOWN else ''} has no leader. Bring back a broker that has a replica "
            "of it (kafka-topics.sh --describe --unavailable-partitions).",
            topic=topic,
        )


def is_log_in(error: KafkaException | KafkaError) -> bool:
    """Whether the brokers do not believe who this is, or TLS does not come about: waiting does not help."""
    return kafka_error(error).code() in _LOG_IN


def failure_of(producer: Producer) -> KafkaException | None:
    """With what the open transaction has failed, fatally or not; None when it has not. Without a request.

    A record that comes then is refused with `_STATE` or `_FATAL`, whatever the reason. To begin another
    transaction is refused as well, with the reason.
    """
    try:
        producer.begin_transaction()
    except KafkaException as error:
        inner = kafka_error(error)
        return error if inner.txn_requires_abort() or inner.fatal() else None
    return None


def is_unanswered(error: KafkaException | KafkaError) -> bool:
    """Whether a call that failed so should simply be made again: nothing is decided yet.

    For a commit this is the only class of errors that leaves its outcome open.
    """
    inner = kafka_error(error)
    if inner.fatal() or inner.txn_requires_abort():
        return False
    return inner.retriable() or inner.code() == KafkaError._TIMED_OUT  # noqa: SLF001 - as above


def without_answer(protocol: str) -> str:
    """What connections that were lost without an error mean.

    librdkafka keeps a disconnect to itself, as an idle connection ends in the same way, and a time-out
    too. Where it wants TLS, a peer without it is an error: only silence is left.
    """
    if protocol.endswith("SSL"):
        return (
            "whatever listens there takes connections and does not answer. Check bootstrap.servers, the "
            "network, and that the brokers are not overloaded or paused."
        )
    return (
        "whatever listens there does not answer, or closes every connection. Check bootstrap.servers, "
        f"that the brokers are not overloaded or paused, and that their listener is for {protocol} "
        "(security.protocol), not for TLS."
    )
