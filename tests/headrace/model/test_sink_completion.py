from dataclasses import replace

import pytest

from headrace.model.sink_entries import (
    TIMES_GONE,
    CompletionAnswer,
    NameHolder,
    SealedObject,
    Upload,
    UploadAge,
    Verdict,
    holder_of,
    verdict_of,
)

YOUNG = UploadAge(upload_ms=10, expiry_ms=100)
OLD = UploadAge(upload_ms=100, expiry_ms=100)
NEVER = UploadAge(upload_ms=10**9, expiry_ms=None)
GONE = CompletionAnswer.NO_SUCH_UPLOAD
SEALED = SealedObject(
    id="a",
    topic="t",
    partition=0,
    topic_id="id",
    group="",
    first_offset=0,
    last_offset=1,
    records=2,
    bytes=2,
    uploads=(Upload(key="a", upload_id="u", parts=()),),
    options="now",
    sealed_ms=0,
    bucket="b",
)


@pytest.mark.parametrize(
    ("answer", "holder", "age", "times", "verdict"),
    [
        (CompletionAnswer.COMPLETED, NameHolder.UNKNOWN, YOUNG, 0, Verdict.COMPLETE),
        (CompletionAnswer.FAILED, NameHolder.OURS, YOUNG, 0, Verdict.RETRY),
        (CompletionAnswer.NAME_TAKEN, NameHolder.OURS, YOUNG, 0, Verdict.COMPLETE),
        (CompletionAnswer.NAME_TAKEN, NameHolder.OTHER, YOUNG, 0, Verdict.NAME_TAKEN),
        (CompletionAnswer.NAME_TAKEN, NameHolder.NOBODY, YOUNG, 0, Verdict.RETRY),
        (CompletionAnswer.NAME_TAKEN, NameHolder.UNKNOWN, YOUNG, 0, Verdict.RETRY),
        (GONE, NameHolder.OURS, OLD, 1, Verdict.COMPLETE),
        (GONE, NameHolder.UNKNOWN, OLD, 99, Verdict.RETRY),
        (GONE, NameHolder.NOBODY, OLD, TIMES_GONE - 1, Verdict.RETRY),
        (GONE, NameHolder.NOBODY, OLD, TIMES_GONE, Verdict.UPLOAD_GONE),
        (GONE, NameHolder.OTHER, OLD, TIMES_GONE, Verdict.UPLOAD_GONE),
        (GONE, NameHolder.NOBODY, YOUNG, TIMES_GONE, Verdict.UNPROVEN),
        (GONE, NameHolder.NOBODY, NEVER, TIMES_GONE, Verdict.UNPROVEN),
    ],
)
def test_what_an_answer_comes_to(
    answer: CompletionAnswer, holder: NameHolder, age: UploadAge, times: int, verdict: Verdict
) -> None:
    """An ambiguous 403 proves nothing; only an old upload that is gone again and again is gone."""
    assert verdict_of(SEALED, answer, holder, age, times_gone=times) is verdict


def test_a_later_object_of_a_recurring_name_shows_that_ours_was_before_it() -> None:
    """Completions of a name go in offset order. A name of its own has no later object."""
    recurring = replace(SEALED, overwrites=True)
    assert verdict_of(recurring, GONE, NameHolder.LATER, OLD, times_gone=1) is Verdict.COMPLETE
    assert verdict_of(SEALED, GONE, NameHolder.LATER, OLD, times_gone=TIMES_GONE) is Verdict.UPLOAD_GONE


def test_whose_object_has_the_name() -> None:
    """Ours by its id; a later one of the same partition and topic; else another's."""
    later = replace(SEALED, id="b", first_offset=2, last_offset=3)
    assert holder_of(SEALED, "a", None) is NameHolder.OURS
    assert holder_of(SEALED, "b", later) is NameHolder.LATER
    assert holder_of(later, "a", SEALED) is NameHolder.OTHER
    assert holder_of(SEALED, "b", None) is NameHolder.OTHER
    assert holder_of(SEALED, "b", replace(later, partition=1)) is NameHolder.OTHER
    assert holder_of(SEALED, "b", replace(later, topic_id="other")) is NameHolder.OTHER
