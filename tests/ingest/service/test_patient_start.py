"""A start that waits for what is away."""

import threading
import time

import pytest
import structlog.testing

from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    InvalidLedger,
    ResourceMissing,
    SourceUnavailable,
    TopicMissing,
    Unavailable,
)
from headrace.process.threads import ThreadFailures
from ingest.service.stop import PatientStart, Stop, Stopped


def _patient(
    seconds: float, stop: Stop | None = None, troubles: list[str | None] | None = None
) -> PatientStart:
    return PatientStart(
        deadline=time.monotonic() + seconds,
        stop=stop or Stop(),
        failures=ThreadFailures(),
        on_trouble=([] if troubles is None else troubles).append,
    )


@pytest.mark.parametrize("refusal", [Unavailable, AccessDenied, SourceUnavailable])
def test_what_is_away_is_asked_for_again(refusal: type[HeadraceError]) -> None:
    """One line says so, and one that it is over; the reason is shown as long as it is waited for."""
    answers: list[HeadraceError | int] = [refusal("is Kafka up?"), refusal("is Kafka up?"), 7]
    troubles: list[str | None] = []
    with structlog.testing.capture_logs() as logged:
        assert _patient(600, troubles=troubles).answer(lambda: _next(answers)) == 7
    assert [
        (line["log_level"], line["event"], line.get("error"), line.get("seconds")) for line in logged
    ] == [
        ("warning", "start_delayed", "is Kafka up?", 600),
        ("info", "start_continued", None, None),
    ]
    assert troubles == ["is Kafka up?", "is Kafka up?", None]


def test_what_answers_at_once_is_no_line() -> None:
    """Nothing was waited for."""
    with structlog.testing.capture_logs() as logged:
        assert _patient(600).answer(lambda: 7) == 7
    assert logged == []


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        pytest.param(Unavailable, Unavailable, id="the time is over"),
        pytest.param(AccessDenied, Unavailable, id="a 403 until the time is over"),
        pytest.param(ResourceMissing, ResourceMissing, id="no bucket"),
        pytest.param(TopicMissing, TopicMissing, id="no topic"),
        pytest.param(InvalidLedger, InvalidLedger, id="another's ledger"),
    ],
)
def test_what_ends_a_start(refusal: type[HeadraceError], raised: type[HeadraceError]) -> None:
    """A final answer, whatever time is left, or that there is none."""
    seconds = 0.0 if raised is Unavailable else 600.0
    with pytest.raises(HeadraceError, match=r"^why$") as found:
        _patient(seconds).answer(lambda: _next([refusal("why")]))
    assert type(found.value) is raised


def test_a_stop_does_not_wait_for_an_answer() -> None:
    """A client that waits for a silent broker takes seconds."""
    stop, asked, never = Stop(), threading.Event(), threading.Event()

    def ask() -> None:
        asked.set()
        stop.ask("SIGTERM")
        never.wait(600)

    began = time.monotonic()
    with pytest.raises(Stopped):
        _patient(600, stop).answer(ask)
    never.set()
    assert asked.is_set()
    assert time.monotonic() - began < 30


def _next(answers: list[HeadraceError | int]) -> int:
    answer = answers.pop(0)
    if isinstance(answer, HeadraceError):
        raise answer
    return answer
