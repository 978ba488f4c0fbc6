"""A problem is a line in the log when it begins, and one when it is over."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from structlog.testing import capture_logs

from headrace.s3.client import translate_s3, translate_upload
from ingest.service.endpoints import ProblemLog
from tests.support.instants import MovedClock


def _lines(log: ProblemLog, problems: dict[str, str]) -> list[tuple[str, str]]:
    with capture_logs() as lines:
        log.tell(problems, ready=not problems)
    return [(line["event"], line["problem"]) for line in lines]


def test_each_problem_is_told_when_it_begins_and_when_it_is_over() -> None:
    """One line at each end, however often one looks."""
    log = ProblemLog(MovedClock(100))
    assert _lines(log, {}) == []
    assert _lines(log, {"bucket": "no bucket"}) == [("problem_found", "no bucket")]
    assert _lines(log, {"bucket": "no bucket"}) == []
    assert _lines(log, {"bucket": "no bucket", "topic": "no topic"}) == [("problem_found", "no topic")]
    assert _lines(log, {"topic": "no topic"}) == [("problem_over", "no bucket")]
    assert _lines(log, {}) == [("problem_over", "no topic")]
    assert _lines(log, {}) == []


def test_a_sentence_that_only_counts_on_is_the_same_problem() -> None:
    """Numbers in it do not make it another."""
    log = ProblemLog(MovedClock(100))
    assert _lines(log, {"archive 1": "3 records wait for 5 s"}) == [
        ("problem_found", "3 records wait for 5 s")
    ]
    assert _lines(log, {"archive 2": "7 records wait for 65 s"}) == []


def _refused() -> ClientError:
    answer: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    return ClientError(answer, "DeleteObject")


KEYS = ("in/35bf992d-c9e9.gz", "in/a b: c, d (1).gz", "in/e and f;\ng.gz", "h")
SENTENCES = (
    "post.action = delete: {} is refused (AccessDenied). Grant what docs/security.md lists.",
    "no request for {} can be sent (ParamValidationError).",
    "No object could be read for 65 s: {} may not be read: grant s3:GetObject (AccessDenied).",
    "{} (offsets 0 to 9 of orders-1) is sealed and has waited 700 s to be completed: the log shows more.",
    "{} (offsets 0 to 9 of orders-1) cannot be completed: {} could not be written for now (503).",
    "{} was written while {} was moved there.",
    "{} does not exist (NoSuchBucket).",
    "Slot 1 has died 3 times: it was killed (in hand: {} and 3 more). It is started again each time.",
    "Slot 1 has died 3 times: it was killed (in hand: {})",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_another_object_in_a_sentence_is_the_same_problem(sentence: str) -> None:
    """Each attempt names the object that was tried last; begun and over are once, whatever is in keys."""
    clock = MovedClock(100)
    log = ProblemLog(clock)
    told = []
    for minute in range(8):
        url = f"s3://uploads/{KEYS[minute % len(KEYS)]}"
        told += _lines(log, {"post_action": sentence.replace("{}", url)})
        clock.now += 61
    first = sentence.replace("{}", f"s3://uploads/{KEYS[0]}")
    assert told == [("problem_found", first)]
    assert _lines(log, {}) == [("problem_over", first)]


@pytest.mark.parametrize("translate", [translate_s3, translate_upload])
def test_refusals_of_two_objects_are_one_problem_and_of_two_buckets_two(translate: Any) -> None:
    """In the words that S3's refusals really have."""
    log = ProblemLog(MovedClock(100))

    def said(bucket: str, key: str) -> list[tuple[str, str]]:
        why = str(translate(_refused(), what=f"s3://{bucket}/{key}"))
        return _lines(log, {f"objects {bucket}": why})

    assert [event for event, _ in said("a", "in/x y.gz")] == ["problem_found"]
    assert said("a", "in/z.gz") == []
    assert [event for event, _ in said("b", "in/z.gz")] == ["problem_over", "problem_found"]


def test_a_sentence_about_more_partitions_is_the_same_problem() -> None:
    """As a registry stays away more and more of a topic waits for it."""
    log = ProblemLog(MovedClock(100))
    assert (
        len(_lines(log, {"slot 0 converter": "It is away. Until then nothing more of t-0 is archived."})) == 1
    )
    assert not _lines(
        log, {"slot 0 converter": "It is away. Until then nothing more of t-0, t-11 is archived."}
    )


def test_another_sentence_of_the_same_part_is_another_problem() -> None:
    """What fails there now is said."""
    log = ProblemLog(MovedClock(100))
    assert _lines(log, {"archive 1": "no bucket"}) == [("problem_found", "no bucket")]
    assert _lines(log, {"archive 1": "denied"}) == [
        ("problem_over", "no bucket"),
        ("problem_found", "denied"),
    ]


def test_one_that_comes_and_goes_is_told_once_a_minute() -> None:
    """Four minutes of it are four pairs of lines."""
    clock = MovedClock(100)
    log = ProblemLog(clock)
    told = 0
    for _ in range(120):
        told += len(_lines(log, {"bucket": "slow"}))
        clock.now += 1
        told += len(_lines(log, {}))
        clock.now += 1
    assert told == 2 * 4


def test_one_that_lasts_longer_than_a_minute_is_not_told_again() -> None:
    """Time alone tells nothing again."""
    clock = MovedClock(100)
    log = ProblemLog(clock)
    assert len(_lines(log, {"bucket": "slow"})) == 1
    for _ in range(10):
        clock.now += 60
        assert _lines(log, {"bucket": "slow"}) == []
