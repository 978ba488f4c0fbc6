"""Commands handed to the leader, or, without one, carried out by taking the lead for them.

A command gets into the ledger without the lead by a transaction of `<name>-command` (docs/decisions/0030).
Such a transaction holds `command:` keys and nothing else, never an object's record: it says what is wished,
and the leader's own transaction says what is. So it needs no group metadata, and may come at any time.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import structlog
from confluent_kafka import KafkaException, Producer

from headrace.kafka.admin import CALL_SECONDS, KafkaAdmin
from headrace.kafka.cache_files import forget_cache
from headrace.kafka.control_records import encode_control, is_command
from headrace.kafka.driver_ledger import DriverLedger
from headrace.kafka.fencing import command_id, initialise
from headrace.kafka.kafka_clients import ClientProperties, client_properties, new_transactional_producer
from headrace.kafka.kafka_errors import CommitUnknown, is_unanswered, translate
from headrace.kafka.leadership import Leadership
from headrace.kafka.ledger_cache import CacheLedgerView
from headrace.kafka.ledger_reader import LedgerReader
from headrace.kafka.ledger_writer import Write
from headrace.model import clock
from headrace.model.errors import Fenced, HeadraceError, TransactionAborted, Unavailable
from headrace.model.ledger_entry import ControlKey, encode_key
from headrace.options import Settings
from headrace.options.transforms.read_chain import known_topics
from ingest.checks.probes.status_reader import has_leader
from ingest.source.catalogue import Catalogue
from ingest.source.command_queue import CommandQueue, ObjectsCommand
from ingest.source.object_selection import object_filters_of

_log = structlog.get_logger(__name__)

# What a sender that dies in the middle can cost: until then the leader's reads stop below its transaction.
TRANSACTION_SECONDS: Final = 5
# One transaction must be over long before that: 32 commands are 32,000 objects or 13 MB at most.
COMMANDS_AT_ONCE: Final = 32
_CALL_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.2

# librdkafka may refuse what is given of these next to so short a transaction.
_OF_LONGER_TRANSACTIONS: Final = frozenset(
    ("delivery.timeout.ms", "linger.ms", "queue.buffering.max.ms", "socket.timeout.ms")
)

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


def command_properties(given: Mapping[str, str]) -> dict[str, str]:
    """The properties of a command's producer, whose transaction is shorter than a slot's."""
    most = str(TRANSACTION_SECONDS * 1000)
    rest = {name: value for name, value in given.items() if name not in _OF_LONGER_TRANSACTIONS}
    return {**rest, "transaction.timeout.ms": most, "message.timeout.ms": most}


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
        producer = new_transactional_producer(command_properties(clients.producer), command_id(name))
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
            # Fenced: another command, or the leader, initialised the id. That may have completed a commit of
            # ours whose answer was lost.
            is_open_question = is_open_question or isinstance(error, Fenced)
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


# How long a leader gets to apply what was submitted before the command reports that it waits.
APPLY_SECONDS: Final = 30.0
_CHECK_SECONDS: Final = 2.0
_MS: Final = 1000

ProgressCallback = Callable[[int, int], None]
"""Called with the number of objects done, and of all."""


class SubmitOutcome(StrEnum):
    """What became of the commands."""

    APPLIED_BY_LEADER = "applied_by_leader"
    APPLIED_HERE = "applied_here"
    HANDED_OVER = "handed_over"  # committed, not applied yet; the leader, or the next one, will


@dataclass(frozen=True, slots=True, kw_only=True)
class _Submission:
    settings: Settings
    ledger_reader: LedgerReader
    messages: Sequence[CommandMessage]
    report_progress: ProgressCallback
    deadline: float
    accept_new_ledger: bool

    @property
    def left(self) -> float:
        """Seconds until patience ends, one at least."""
        return max(1.0, self.deadline - time.monotonic())


def submit(
    settings: Settings,
    ledger_reader: LedgerReader,
    messages: Sequence[CommandMessage],
    *,
    report_progress: ProgressCallback,
    timeout: float,
    accept_new_ledger: bool = False,
) -> SubmitOutcome:
    """What became of these commands: applied, or at least committed, exactly once. Blocks.

    With `accept_new_ledger` it leads over an empty or another ledger, as `run` with that option; the group
    accepts that one when all is applied, so that no start finds it before.

    Unavailable after `timeout` seconds without one or the other, AccessDenied, InvalidLedger.
    """
    submission = _Submission(
        settings=settings,
        ledger_reader=ledger_reader,
        messages=messages,
        report_progress=report_progress,
        deadline=time.monotonic() + timeout,
        accept_new_ledger=accept_new_ledger,
    )
    admin = KafkaAdmin(client_properties(settings).admin, timeout=min(CALL_SECONDS, timeout))
    is_sent = False
    while True:
        if has_leader(admin, settings.name):
            if not is_sent:
                write_commands(
                    client_properties(settings),
                    ledger_reader,
                    messages,
                    name=settings.name,
                    topic=settings.kafka.ledger_topic,
                    timeout=submission.left,
                )
                is_sent = True
                submission = _with_patience(submission)
            if _watch(submission, admin):
                return SubmitOutcome.APPLIED_BY_LEADER
        elif _lead_and_apply(submission, is_sent=is_sent):
            return SubmitOutcome.APPLIED_HERE
        if time.monotonic() >= submission.deadline:
            if is_sent:
                return SubmitOutcome.HANDED_OVER
            raise Unavailable(
                f"There is no leader of the ingester {settings.name!r}, and this command could not take the "
                "lead. Try again when the group has settled (lead.session.timeout.ms)."
            )


def _with_patience(submission: _Submission) -> _Submission:
    return replace(submission, deadline=time.monotonic() + APPLY_SECONDS)


def _watch(submission: _Submission, admin: KafkaAdmin) -> bool:
    """Whether the commands, which were sent, are applied; False when patience or the leader is gone."""
    ledger_reader = submission.ledger_reader
    all_objects = sum(len(command.objects) for _, command in submission.messages)

    def is_done() -> bool:
        controls = ledger_reader.cache.controls()
        left = sum(len(command.objects) for key, command in submission.messages if key in controls)
        # What was sent has been seen before its absence means that it was applied.
        if not all(ledger_reader.has_seen(key) for key, _ in submission.messages):
            left = all_objects
        submission.report_progress(all_objects - left, all_objects)
        return left == 0

    while time.monotonic() < submission.deadline:
        if ledger_reader.wait_for(is_done, min(_CHECK_SECONDS, submission.left)):
            return True
        if not has_leader(admin, submission.settings.name):
            return False
    return False


def _lead_and_apply(submission: _Submission, *, is_sent: bool) -> bool:
    """Whether this process got the lead and applied every command there is; False when another leads."""
    settings, accepts = submission.settings, submission.accept_new_ledger
    clients = client_properties(settings)
    lead = Leadership(
        clients.consumer,
        name=settings.name,
        ledger_topic=settings.kafka.ledger_topic,
        session_timeout_ms=settings.identity.lead_session_timeout_ms,
        # Never instance.id: a static member of the service's would be fenced by us.
    )
    lead.join()
    try:
        # A member that died holds the lead for a session timeout still.
        patience = settings.identity.lead_session_timeout_ms / _MS + 5
        if not lead.wait_for_lead(min(patience, submission.left), threading.Event()):
            if lead.problem is not None:
                raise Unavailable(lead.problem)
            return False
        ledger = DriverLedger(
            clients,
            name=settings.name,
            topic=settings.kafka.ledger_topic,
            lead=lead,
            # What the cache there is of is remembered, too, where the group's memory has expired.
            state_dir=None if accepts else settings.state_dir,
            anchors=known_topics(settings.transforms, settings.routing.topic),
            boundary_seconds=settings.kafka.transaction_interval_ms / _MS,
            accept_new_ledger=accepts,
        )
        try:
            ledger.take_over(timeout=max(submission.left, 30.0), claims=not accepts)
            _apply(submission, ledger, is_sent=is_sent)
            if accepts:
                # Last: a death before it leaves a ledger that `run` refuses, and never one without its marks.
                ledger.claim()
                forget_cache(settings.state_dir, settings.name)
        finally:
            ledger.close()
    finally:
        lead.close()
    return True


def _apply(submission: _Submission, ledger: DriverLedger, *, is_sent: bool) -> None:
    """Every command that the ledger holds, and ours if they are not among them, as the service would."""
    cache = ledger.cache
    # No room: nothing becomes pending here, the next leader finds it in the ledger.
    catalogue = Catalogue(
        view=CacheLedgerView(cache),
        filters=object_filters_of(submission.settings, {}),
        max_pending_objects=0,
        retention_ms=submission.settings.ledger.retention_ms,
    )
    if not is_sent:
        # Into the ledger first, as if sent: should the lead go in the middle, the next leader does the rest.
        for begin in range(0, len(submission.messages), COMMANDS_AT_ONCE):
            part = submission.messages[begin : begin + COMMANDS_AT_ONCE]
            ledger.commit([(key, encode_control(command)) for key, command in part])
    commands = CommandQueue(catalogue)
    for key, raw in cache.controls().items():
        commands.on_control_record(key, raw)
    for key, command in submission.messages if not is_sent else ():
        commands.on_control_record(key, encode_control(command))
    all_objects = sum(len(command.objects) for _, command in submission.messages)
    done = 0
    while (step := commands.step(clock.now())) is not None:
        writes: list[Write] = [(write.key, write.entry) for write in step.effects.writes]
        ledger.commit([*writes, step.record])
        catalogue.on_written(step.effects.writes, clock.now())
        commands.written()
        done += sum(len(command.objects) for key, command in submission.messages if key == step.record[0])
        submission.report_progress(min(done, all_objects), all_objects)
