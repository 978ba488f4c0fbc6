"""What `check` says of Lenses' locks: where partitions would begin, what would be finished, what stops."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Final

import pytest

from headrace.kafka.control_records import PAUSE, Pause, TargetState, encode_control
from headrace.kafka.data_topics import Survey, SurveyedPartition
from headrace.model.errors import Unavailable
from headrace.options import Settings
from ingest.checks.findings.finding import Verdict
from ingest.checks.findings.sink_findings import TakeoverFacts, takeover_findings
from ingest.cli.sink_check_and_plan import ledger_findings, lines_of, shape_of
from tests.ingest.checks.findings.configured import configured

_SINK: Final = {"topic": None, "sqs.queue.url": None, "file.name.template": None, "topics": "t"}
_LOCK: Final = "s3://b/.indexes/c/.locks/Topic(t)/0.lock"


def _facts(**changes: Any) -> TakeoverFacts:
    return TakeoverFacts(**{"topic": "t", "partition": 0, "offset": 10, "group_offset": 9, **changes})


@pytest.mark.parametrize(
    ("changes", "begin", "words"),
    [
        ({}, 10, "begins at offset 10, after its lock"),
        ({"group_offset": None}, 10, "begins at offset 10, after its lock"),
        ({"group_offset": 12}, 12, "begins at the group's offset 12, which is above its lock's"),
        ({"offset": None, "groups": 2}, 9, "has no lock of its own, 2 values of PARTITIONBY archived beyond"),
        ({"finished": (_LOCK,)}, 10, "1 pending commit to finish"),
        ({"dropped": (_LOCK, _LOCK)}, 10, "2 pending commits that cannot be finished"),
        ({"problem": "s3://b/x is no lock."}, 10, "does not begin: s3://b/x is no lock."),
    ],
)
def test_a_sentence_for_each(changes: dict[str, Any], begin: int, words: str) -> None:
    """By lock or group, whichever is higher."""
    facts = _facts(**changes)

    assert facts.begin == begin
    assert facts.sentence.startswith("t-0 ")
    assert facts.sentence.endswith(words)


def test_what_stops_fails_and_what_is_read_again_warns() -> None:
    """All others are in one line."""
    facts = [_facts(partition=number) for number in range(7)]
    (fine,) = takeover_findings(".indexes", facts)
    stopped, others = takeover_findings(".indexes", [*facts, _facts(partition=9, problem="no lock.")])
    (again,) = takeover_findings(".indexes", [_facts(dropped=(_LOCK,))])

    assert fine.verdict is Verdict.OK
    assert fine.sentence.endswith("and 2 more (headrace plan)")
    assert (stopped.verdict, others.verdict) == (Verdict.FAIL, Verdict.OK)
    assert "takeover.indexes=none" in str(stopped.remedy)
    assert again.verdict is Verdict.WARN
    assert list(takeover_findings(".indexes", [])) == []


def test_plan_shows_them() -> None:
    """In lines and as JSON; one that would not begin begins nowhere."""
    settings = configured(_SINK)
    taken = [_facts(), _facts(partition=1, problem="no lock.")]

    lines = list(lines_of(settings, [], taken, has_ledger=False))
    assert lines[-2:] == [f"  {each.sentence}" for each in taken]
    assert not any("locks" in line for line in lines_of(settings, [], has_ledger=False))
    shape = shape_of(settings, [], taken, has_ledger=False)["takeover"]
    assert [each["begin"] for each in shape] == [10, None]


class _Reading(nullcontext[None]):
    """A ledger with these control records."""

    def __init__(self, pause: Pause | None) -> None:
        super().__init__()
        controls = {} if pause is None else {PAUSE: encode_control(pause)}
        self.cache = SimpleNamespace(controls=lambda: controls)


@pytest.mark.parametrize(
    ("reading", "mark", "target"),
    [
        (_Reading(Pause(state=TargetState.PAUSED, at_ms=1)), "m", TargetState.PAUSED),
        (_Reading(None), "m", TargetState.RUNNING),
        (None, "m", None),
        (Unavailable("The brokers do not answer."), "m", None),
        (_Reading(None), "", None),
    ],
)
def test_what_is_wanted_is_known_where_the_ledger_is_read_anyway(
    reading: Any, mark: str, target: TargetState | None
) -> None:
    """Only where it was not, Kafka's own facts have it read for that."""

    def open_ledger(_settings: Settings, *, timeout: float) -> Any:
        assert timeout > 0
        if isinstance(reading, Exception):
            raise reading
        return reading

    one = SurveyedPartition(
        topic="t", partition=0, topic_id="i", begin=0, end=9, group_offset=9, group_mark=mark
    )
    survey = Survey(partitions=(one,), members=(), missing=())
    assert ledger_findings(configured(_SINK), survey, open_ledger=open_ledger) == ([], target)
