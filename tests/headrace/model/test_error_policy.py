"""The table of what becomes of an object, against the error tree."""

import inspect
from typing import Final

import pytest

from headrace.model import errors
from headrace.model.error_policy import OUTCOMES, RetryDelay, policy_of
from headrace.model.ledger_entry import State

# These end the process; they are never true of one object, so no task may report one for it.
_ENDS_THE_PROCESS: Final = frozenset(
    {
        "HeadraceError",
        "SettingsError",
        "InvalidConfiguration",
        "Unavailable",
        "InvalidLedger",
        "LeadershipLost",
        "TakenOver",
        "FrameRefused",
    }
)

CLASSES = {
    name
    for name, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, errors.HeadraceError)
}


def test_every_error_class_has_one_answer() -> None:
    """A new class in `headrace.model.errors` without a row fails here."""
    assert set(OUTCOMES) | (_ENDS_THE_PROCESS - {"SettingsError"}) == CLASSES
    assert not set(OUTCOMES) & _ENDS_THE_PROCESS


@pytest.mark.parametrize(
    ("kind", "state", "reason", "is_counted", "holds_back"),
    [
        ("ObjectMissing", State.SKIPPED, "missing", False, False),
        ("ObjectSuperseded", State.SKIPPED, "superseded", False, False),
        ("ObjectArchived", State.SKIPPED, "archived", False, False),
        ("ObjectForbidden", State.FAILED, "forbidden", True, True),
        ("ObjectCorrupt", State.FAILED, "corrupt", True, True),
        ("ObjectError", State.FAILED, "unreadable", True, True),
        ("InvalidObject", State.QUARANTINED, None, False, False),
        ("SourceUnavailable", None, "source_unavailable", False, True),
        ("AccessDenied", None, "access_denied", False, True),
        ("TopicMissing", State.FAILED, "topic_missing", False, True),
        ("TopicForbidden", State.FAILED, "topic_forbidden", False, True),
        ("SubjectForbidden", State.FAILED, "subject_forbidden", False, True),
        ("TopicWithoutLeader", State.FAILED, "topic_without_leader", False, True),
        ("RecordRefused", State.QUARANTINED, "record_refused", False, False),
        ("TransactionAborted", None, "transaction_aborted", False, True),
        ("Fenced", None, "fenced", False, True),
    ],
)
def test_outcomes(
    kind: str,
    state: State | None,
    reason: str | None,
    is_counted: bool,
    holds_back: bool,
) -> None:
    """Each row as docs/errors.md says it."""
    outcome = policy_of(kind)
    assert (outcome.state, outcome.reason, outcome.is_counted) == (state, reason, is_counted)
    assert outcome.holds_partition_back is holds_back


def test_only_a_refusal_that_holds_for_all_stops_all() -> None:
    """Expired credentials are no object's fault, so no object waits for them alone."""
    assert [kind for kind, row in OUTCOMES.items() if row.wait is RetryDelay.BUCKET] == [
        "AccessDenied",
        "ResourceMissing",
    ]


@pytest.mark.parametrize("kind", ["ValueError", "LeadershipLost", ""])
def test_what_is_no_end_of_an_object_is_refused(kind: str) -> None:
    """A bug must not pass for a retry."""
    with pytest.raises(ValueError, match="no error that an object can end in"):
        policy_of(kind)
