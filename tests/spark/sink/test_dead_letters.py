"""Dead letters of a sink: the record as it was, what is wrong with it, and what no topic would take."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.formats.converted_records import RecordFault
from headrace.model.columns import TIMESTAMP_CREATED, KafkaRecords, Stage, column_of
from headrace.options.choices import Tolerance
from headrace.options.settings import DeadLetterSettings, ErrorSettings
from spark.sink.bad_records import DeadLetter, DeadLetters

FAULT = RecordFault(offset=12, reason="not_json", message="it is no JSON")


def records(value: bytes | None) -> KafkaRecords:
    """Offsets 11 and 12 of orders-3; the second has this value, a key and a header."""
    return KafkaRecords(
        topic="orders",
        partition=3,
        offsets=np.array([11, 12]),
        timestamps_ms=np.array([1, 2]),
        timestamp_types=np.full(2, TIMESTAMP_CREATED),
        keys=column_of([None, b"key"]),
        values=column_of([b"{}", value]),
        headers=[(), (("own", b"header"),)],
    )


def letters(
    *, topic: str | None = "dead", max_bytes: int = 1_000_000, is_logged: bool = False
) -> DeadLetters:
    """For a sink `archive`, slot 1."""
    errors = ErrorSettings(
        tolerance=Tolerance.ALL,
        dead_letter=None if topic is None else DeadLetterSettings(topic=topic, replication_factor=None),
        max_attempts=1,
        retry_delay_ms=1,
        retry_delay_max_ms=1,
        log_enable=is_logged,
    )
    return DeadLetters("archive", 1, errors, max_bytes=max_bytes)


def letter_of(value: bytes | None, made: DeadLetters) -> DeadLetter:
    """The dead letter of the second record."""
    found = made.of(records(value), FAULT)
    assert found is not None
    return found


@pytest.mark.parametrize("value", [b"not json", b"", None])
def test_the_record_comes_as_it_was_with_its_place_and_reason(value: bytes | None) -> None:
    """Null and empty told apart; its own headers first."""
    found = letter_of(value, letters())

    assert (found.topic, found.key, found.value, found.reason) == ("dead", b"key", value, "not_json")
    assert found.headers[0] == ("own", b"header")
    told = dict(found.headers)
    assert told["__connect.errors.topic"] == b"orders"
    assert told["__connect.errors.partition"] == b"3"
    assert told["__connect.errors.offset"] == b"12"
    assert told["__connect.errors.connector.name"] == b"archive"
    assert told["__connect.errors.exception.message"] == b"it is no JSON"
    assert told["__connect.errors.stage"] == b"VALUE_CONVERTER"


def test_it_says_what_refused_the_record() -> None:
    """A key, a transform or a header, in Kafka Connect's words."""
    for stage in Stage:
        found = letters().of(records(b"x"), replace(FAULT, stage=stage))
        assert found is not None
        assert dict(found.headers)["__connect.errors.stage"] == stage.name.encode()


def test_one_that_no_topic_would_take_comes_with_its_size_alone() -> None:
    """With what is told of it, it would be refused for ever."""
    found = letter_of(b"x" * 900, letters(max_bytes=1000))

    assert (found.key, found.value) == (None, b"")
    assert dict(found.headers)["headrace.size"] == b"903"
    assert "own" not in dict(found.headers)
    assert letter_of(b"x" * 100, letters(max_bytes=1000)).value == b"x" * 100


def test_without_a_topic_there_is_none() -> None:
    """It is left out, and logged where that is wanted."""
    assert letters(topic=None).of(records(b"x"), FAULT) is None


@pytest.mark.parametrize("is_logged", [True, False])
def test_one_line_is_logged_if_that_is_wanted(*, is_logged: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """`errors.log.enable`; never with content."""
    made = letters(is_logged=is_logged)
    for _ in range(3):
        made.of(records(b"secret content"), FAULT)

    output = "".join(capsys.readouterr())
    assert output.count("bad_record") == int(is_logged)
    assert "secret" not in output


def test_a_dead_letter_that_comes_back_makes_no_other() -> None:
    """Two sinks whose patterns match each other's dead letter topics would never end."""
    first = letter_of(b"not json", letters())
    other = replace(records(b"not json"), headers=[(), first.headers])
    assert letters().of(other, FAULT) is None
    theirs = tuple(
        (name, b"another" if name.endswith("connector.name") else value) for name, value in first.headers
    )
    assert letters().of(replace(other, headers=[(), theirs]), FAULT) is not None
