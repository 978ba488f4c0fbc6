"""Getting commands done: handed to the leader, or, without one, by taking the lead for them."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.cache_view import CacheLedgerView
from headrace.kafka.control_records import encode_control
from headrace.kafka.driver_ledger import DriverLedger
from headrace.kafka.leadership import Leadership
from headrace.kafka.ledger_writer import Write
from headrace.model import clock
from headrace.model.errors import Unavailable
from headrace.options import Settings
from ingest.checks.probes.ledger_reader import LedgerReader, client_properties, has_leader
from ingest.cli.command_writer import COMMANDS_AT_ONCE, CommandMessage, write_commands
from ingest.source.catalogue import Catalogue
from ingest.source.command_queue import CommandQueue
from ingest.source.object_selection import object_filters_of

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
) -> SubmitOutcome:
    """What became of these commands: applied, or at least committed, exactly once. Blocks.

    Unavailable after `timeout` seconds without one or the other, AccessDenied, InvalidLedger.
    """
    submission = _Submission(
        settings=settings,
        ledger_reader=ledger_reader,
        messages=messages,
        report_progress=report_progress,
        deadline=time.monotonic() + timeout,
    )
    admin = KafkaAdmin(client_properties(settings).admin)
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
    return _Submission(
        settings=submission.settings,
        ledger_reader=submission.ledger_reader,
        messages=submission.messages,
        report_progress=submission.report_progress,
        deadline=time.monotonic() + APPLY_SECONDS,
    )


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
    settings = submission.settings
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
            state_dir=settings.state_dir,
            anchors=[] if settings.routing.topic is None else [settings.routing.topic],
            boundary_seconds=settings.kafka.transaction_interval_ms / _MS,
        )
        try:
            ledger.take_over(timeout=max(submission.left, 30.0))
            _apply(submission, ledger, is_sent=is_sent)
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
