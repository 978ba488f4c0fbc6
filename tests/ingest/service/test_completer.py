"""What is left pending is completed in threads that are there only then."""

import threading
from typing import Any

from ingest.model.sink_completion import Verdict
from ingest.model.sink_entries import SealedObject, Upload
from ingest.service.service_events import ComponentProblem
from ingest.service.sink.completer import Completer
from ingest.service.sink.sink_events import CompletionEnded
from spark.s3.completion import Completion, CompletionState
from tests.support.until import until_sync


class _Calls:
    """Completes whatever it is given."""

    def complete(self, *_: object, **__: object) -> Completion:
        """Done."""
        return Completion(state=CompletionState.COMPLETED)


def _sealed(number: int) -> SealedObject:
    return SealedObject(
        id=f"object-{number}",
        topic="t",
        partition=0,
        topic_id="i",
        group="",
        first_offset=number,
        last_offset=number,
        records=1,
        bytes=1,
        uploads=(Upload(key=f"{number}", upload_id="u", parts=('"e"',)),),
        options="o",
        sealed_ms=0,
        bucket="b",
    )


def _threads() -> int:
    return sum(one.name.startswith("completer-") for one in threading.enumerate())


def test_threads_come_with_the_first_object_and_go_at_the_end() -> None:
    """A leader that is left nothing has none."""
    ended: list[CompletionEnded | ComponentProblem] = []
    calls: Any = _Calls()
    completer = Completer(calls, ended.append, expiry_ms=None, entry_of=lambda _id: None)
    assert _threads() == 0

    for number in range(50):
        completer.submit(_sealed(number))
    until_sync(lambda: len(ended) == 50, what="all objects")

    assert {one.verdict for one in ended if isinstance(one, CompletionEnded)} == {Verdict.COMPLETE}
    assert 1 <= _threads() <= 8
    completer.close()
    until_sync(lambda: _threads() == 0, what="the end of its threads")
