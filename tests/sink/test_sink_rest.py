"""The REST interface of a sink on real parts: what it shows, and what a request sets holds."""

from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import Exit
from localstack.ports import free_port
from tests.sink.archive_account import new_archive
from tests.support import aws, rest_request
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def test_a_sink_is_paused_stopped_rewound_and_resumed(tmp_path: Path) -> None:
    """Offsets in Connect's shape; nothing is archived while it is stopped; a rewind archives again."""
    archive = new_archive(tmp_path)
    name, port = aws.unique("sink"), free_port()

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return rest_request.ask(f"http://127.0.0.1:{port}/connectors/{name}{path}", method, body)

    def offset() -> int:
        found = ask("GET", "/offsets")[1]["offsets"]
        return sum(one["offset"]["kafka_offset"] for one in found)

    archive.produce({"value": b'{"n":%d}' % number, "partition": number % 2} for number in range(20))
    sink = archive.service(name, rest__listen=f"127.0.0.1:{port}", rotate__age__ms=500)
    sink.start(ready_seconds=120)
    try:
        until_sync(lambda: sink.status()["role"] == "leader", seconds=120, what="the lead")
        until_sync(lambda: offset() == 20, seconds=60, what="everything archived")
        status, shown = ask("GET", "/status")
        assert (status, shown["type"], shown["connector"]["state"]) == (200, "sink", "RUNNING")
        assert ask("GET", "/topics")[1] == {name: {"topics": [archive.topic]}}
        partition = {"kafka_topic": archive.topic, "kafka_partition": 0}
        change = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 4}}]}
        assert ask("PATCH", "/offsets", change)[0] == 400

        assert ask("PUT", "/stop") == (204, None)
        shown = ask("GET", "/status")[1]
        assert (shown["connector"]["state"], shown["tasks"]) == ("STOPPED", [])
        before = archive.keys()
        archive.produce({"value": b'{"n":20}', "partition": 0} for _ in range(1))
        unknown = {"offsets": [{"partition": partition | {"kafka_topic": "other"}, "offset": None}]}
        assert ask("PATCH", "/offsets", unknown)[0] == 400
        above = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 12}}]}
        status, refused = ask("PATCH", "/offsets", above)
        assert (status, f"{archive.topic}-0 ends at offset 11, below 12" in refused["message"]) == (400, True)
        # What has come since Kafka was asked last is no reason to refuse it.
        end = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 11}}]}
        assert ask("PATCH", "/offsets", end)[0] == 200
        assert ask("PATCH", "/offsets", change)[0] == 200
        assert offset() == 14
        assert archive.keys() == before

        assert ask("PUT", "/resume") == (202, None)
        until_sync(lambda: offset() == 21, seconds=60, what="everything archived again")
        until_sync(lambda: len(archive.archived()) == 21, seconds=60, what="visible objects")
        twice = {place: count for place, count in archive.archived().items() if count > 1}
        assert twice == {(0, number): 2 for number in range(4, 10)}
    finally:
        assert sink.stop() == Exit.DONE
