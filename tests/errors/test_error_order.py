"""What fails for long: what comes after it in its topic-partition, and what has nothing to do with it."""

import gzip
from pathlib import Path

import pytest

from headrace.model.ledger_entry import State
from tests.errors.harness import counted, json_lines, stand
from tests.support.service import queue_depth
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

HELD = 5


def test_a_failed_object_holds_its_topic_partition_and_nobody_else(tmp_path: Path) -> None:
    """As many messages wait as may be held; another topic's object is ingested all the same.

    What was held back follows in order when the failed one has been replaced, and no message goes before.
    """
    with stand(
        tmp_path,
        "order",
        ordering="partition",
        file__name__template=r"^{{topic}}/p{{partition}}/{{start_offset}}",
        errors__max__attempts=1000,
        errors__retry__delay__max__ms=200,
        sqs__max__held=HELD,
    ) as one:
        topic, other = one.topic(), one.topic()
        keys = [f"{topic}/p0/{number}" for number in range(HELD)]
        torn = gzip.compress(json_lines(*counted(1000)))[:-20]
        one.put(keys[0], torn)
        until_sync(lambda: len(one.failures(keys[0])) > 2, seconds=60, what="failed attempts")
        for number, key in enumerate(keys[1:], 1):
            one.put(key, json_lines({"id": f"row-{number}"}))
        until_sync(lambda: one.service.status()["pending_objects"] == HELD, seconds=60, what="all of them")

        beside = f"{other}/p0/7"
        one.put(beside, json_lines({"id": "beside"}))
        assert one.await_end(beside)["outcome"] == "done"
        until_sync(lambda: len(one.failures(keys[0])) > 10, seconds=60, what="more attempts")
        assert [one.end(key) for key in keys] == [None] * HELD
        failed = one.entry(keys[0])
        assert failed is not None
        assert failed.state in {State.FAILED, State.PARTIAL}
        assert [one.entry(key) for key in keys[1:]] == [None] * (HELD - 1)
        assert queue_depth(one.route.queue_url) == HELD
        before = one.values(topic)

        one.put(keys[0], json_lines({"id": "row-0"}))
        for key in keys[1:]:
            assert one.await_end(key, seconds=60)["outcome"] == "done"
        one.await_quiet()
        after = one.values(topic)[len(before) :]
        first, *behind = (b'{"id":"row-%d"}' % number for number in range(HELD))
        # A GET may meet the new content before its event has come; then it is a late lower offset.
        assert [row for row in after if row != first] == behind
        assert after.count(first) == 1
