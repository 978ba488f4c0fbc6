"""Writing commands into the ledger without the lead: transactions of `<name>-command` (docs/decisions/0030).

Such a transaction holds `command:` keys and nothing else, never an object's record: it says what is wished,
and the leader's own transaction says what is. So it needs no group metadata, and may come at any time.
"""

import contextlib
import time
from collections.abc import Sequence
from typing import Final

import structlog
from confluent_kafka import KafkaException, Producer

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.control_records import encode_control, is_command
from headrace.kafka.fencing import command_id, initialise
from headrace.kafka.kafka_clients import ClientProperties, new_transactional_producer
from headrace.kafka.kafka_errors import CommitUnknown, is_unanswered, translate
from headrace.model.errors import Fenced, HeadraceError, TransactionAborted, Unavailable
from headrace.model.ledger_entry import ControlKey, encode_key
from ingest.checks.probes.ledger_reader import LedgerReader
from ingest.source.command_records import ObjectsCommand

_log = structlog.get_logger(__name__)

# What a sender that dies in the middle can cost: until then the leader's reads stop below its transaction.
TRANSACTION_SECONDS: Final = 5
# One transaction must be over long before that: 32 commands are 32,000 objects or 13 MB at most.
COMMANDS_AT_ONCE: Final = 32
_CALL_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.2

CommandMessage = tuple[ControlKey, ObjectsCommand]


def write_commands(
    clients: ClientProperties,
    ledger_reader: LedgerReader,
    messages: Sequence[CommandMessage],
    *,
    name: str,
    topic: str,
    timeout: float,
) -> None:
    """Return when all commands are committed to the ledger, each exactly once. Blocks.

    Unavailable when they were not committed or that is unknown; AccessDenied. `timeout` is in seconds.
    `ledger_reader` must be live.
    """
    deadline = time.monotonic() + timeout
    for begin in range(0, len(messages), COMMANDS_AT_ONCE):
        _write_together(
            clients,
            ledger_reader,
            messages[begin : begin + COMMANDS_AT_ONCE],
            (name, topic),
            deadline=deadline,
        )


def _write_together(
    clients: ClientProperties,
    ledger_reader: LedgerReader,
    messages: Sequence[CommandMessage],
    name_and_topic: tuple[str, str],
    *,
    deadline: float,
) -> None:
    name, topic = name_and_topic
    is_open_question = False
    while True:
        producer = new_transactional_producer(
            {
                **clients.producer,
                "transaction.timeout.ms": str(TRANSACTION_SECONDS * 1000),
                "message.timeout.ms": str(TRANSACTION_SECONDS * 1000),
            },
            command_id(name),
        )
        try:
            initialise(producer, command_id(name), deadline=deadline)
            if is_open_question:
                # The init has decided what was in doubt. Writing it again after the leader has applied and
                # removed it would apply it twice, so the ledger is asked.
                _, end = KafkaAdmin(clients.admin).ends(topic)
                ledger_reader.read_to(end, max(1.0, deadline - time.monotonic()))
                if ledger_reader.has_seen(messages[0][0]):
                    producer.close()
                    return
                is_open_question = False
            _transact(producer, topic, messages, deadline)
        except CommitUnknown:
            is_open_question = True
        except (Fenced, TransactionAborted, Unavailable) as error:
            # Fenced: another command was sent at the same moment; nothing of ours was committed.
            if time.monotonic() >= deadline:
                raise Unavailable(f"The command could not be written to the ledger: {error}") from error
            _log.info("command_sent_again", error=str(error))
            time.sleep(_PAUSE_SECONDS)
        else:
            producer.close()
            return
        # Not closed: that would abort a commit in doubt. The next init or its timeout ends it.
        producer.purge()
        if time.monotonic() >= deadline:
            raise Unavailable(
                "The broker did not say whether it has committed the command. Look with `headrace status` "
                "and `--dry-run` before you give it again."
            )


def _transact(producer: Producer, topic: str, messages: Sequence[CommandMessage], deadline: float) -> None:
    what = f"writing a command to the ledger {topic!r}"
    try:
        producer.begin_transaction()
        for key, command in messages:
            assert is_command(key), f"{key} is no command, and nothing else is written without the lead"
            producer.produce(topic, key=encode_key(key), value=encode_control(command), partition=0)
        while not _is_committed(producer, deadline):
            pass
    except KafkaException as error:
        if error.args[0].txn_requires_abort():
            # Sooner than its timeout, so that readers are not held back.
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(_CALL_SECONDS)
        found: HeadraceError = translate(error, what=what)
        raise found from error


def _is_committed(producer: Producer, deadline: float) -> bool:
    try:
        producer.commit_transaction(_CALL_SECONDS)
    except KafkaException as error:
        if not is_unanswered(error):
            raise
        if time.monotonic() >= deadline:
            raise CommitUnknown("the commit of a command was not answered") from error
        return False
    return True
