"""What is tried again for hours is one line in the log, and a line more where its reason is another one."""

import queue
from collections.abc import Sequence
from typing import Any

import structlog
import structlog.testing

from headrace.model.errors import SourceUnavailable, Unavailable
from headrace.model.ledger_entry import ControlKey
from headrace.process.logs import RetryLog
from ingest.service.ledger_writes import LedgerWrites
from ingest.service.service_events import Written


def test_the_same_again_is_for_debug() -> None:
    """Until it has succeeded. Seconds and keys are counted on, and two sentences may take turns."""
    retries = RetryLog(structlog.get_logger("x"), "listing_failed")
    with structlog.testing.capture_logs() as logged:
        for attempt in range(3):
            retries.failed("a", SourceUnavailable(f"S3 answers 503 after {attempt} s."), bucket="a")
            retries.failed("a", SourceUnavailable("The name is not known."), bucket="a")
        retries.failed("b", SourceUnavailable("The name is not known."), bucket="b")
        retries.over("a")
        retries.failed("a", SourceUnavailable("The name is not known."), bucket="a")

    warned = [(line["bucket"], line["error"]) for line in logged if line["log_level"] == "warning"]
    assert len(logged) == 8
    assert warned == [
        ("a", "S3 answers 503 after 0 s."),
        ("a", "The name is not known."),
        ("b", "The name is not known."),
        ("a", "The name is not known."),
    ]


def test_the_uuid_of_a_schema_is_no_other_reason() -> None:
    """Each record may name another one."""
    retries = RetryLog(structlog.get_logger("x"), "records_held_back")
    with structlog.testing.capture_logs() as logged:
        for each in ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "7"):
            retries.failed("a", SourceUnavailable(f"The value names a schema by the id {each}, and waits."))

    assert [line["log_level"] for line in logged] == ["warning", "debug", "debug"]


def test_what_does_not_pass_by_itself_is_an_error_once() -> None:
    """The same again is for DEBUG, as of all that is tried again."""
    retries = RetryLog(structlog.get_logger("x"), "worker_lead_refused", is_error=True)
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            retries.failed(None, Unavailable("It may not be led."))

    assert [line["log_level"] for line in logged] == ["error", "debug", "debug"]


def test_it_does_not_keep_any_number_of_sentences() -> None:
    """The same again is for DEBUG all the while; what was not said for a thousand others is said again."""
    retries = RetryLog(structlog.get_logger("x"), "listing_failed")
    with structlog.testing.capture_logs() as logged:
        retries.failed("a", SourceUnavailable("Once."))
        for number in range(2000):
            retries.failed(f"topic-{number}", SourceUnavailable("It may not be made."))
            retries.failed("a", SourceUnavailable("Always."))
        retries.failed("a", SourceUnavailable("Once."))

    warned = [line["error"] for line in logged if line["log_level"] == "warning"]
    assert (warned.count("Always."), warned.count("Once.")) == (1, 2)
    assert len(retries._told) <= 1000


class _AwayLedger:
    """Its broker is away for two attempts."""

    def __init__(self) -> None:
        self.attempts = 0

    def commit(self, _: Sequence[Any], *, other: object) -> None:
        """See `DriverLedger`."""
        assert other is None
        self.attempts += 1
        if self.attempts < 3:
            raise Unavailable("the broker is away")


def test_a_ledger_that_cannot_be_written_is_one_line() -> None:
    """However often it is tried."""
    posted: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ledger: Any = _AwayLedger()
    with structlog.testing.capture_logs() as logged:
        writes = LedgerWrites(ledger, posted.put)
        writes.submit((), (ControlKey("a"), b"{}"))
        while not isinstance(posted.get(timeout=60), Written):
            pass
        writes.close(60.0)

    tries = [line for line in logged if line["event"] == "ledger_write_failed"]
    assert [line["log_level"] for line in tries] == ["warning", "debug"]
