"""Programs that use the Python API on the real parts, each a process of its own."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Final

import pytest

from tests.sink.archive_account import Archive, new_archive
from tests.sink.test_sink_end_to_end import group_offsets
from tests.support import aws, kafka

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_ROOT: Final = Path(__file__).resolve().parents[2]

_QUIX: Final = """
    import headrace
    from headrace.quix import FileSink, JSONFormat, S3Destination

    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "endpoint_url": S3}
    try:
        S3Destination(BUCKET + "-other", **keys)
    except headrace.HeadraceError as error:
        print(json.dumps(str(error)))
    sink = FileSink("data", JSONFormat(), S3Destination(BUCKET, **keys))
    code = sink.run([TOPIC], KAFKA, NAME, commit_every=2, until_idle=True, options={"state.dir": FOLDER})
    print(json.dumps(code))
"""

_CONNECTOR: Final = """
    import time
    import headrace

    config = {"name": NAME, "topics": TOPIC, "bootstrap.servers": KAFKA, "aws.s3.bucket.name": BUCKET,
              "aws.s3.endpoint": S3, "aws.access.key.id": "test", "aws.secret.access.key": "test",
              "state.dir": FOLDER, "http.listen": "", "tasks.max": 1, "rotate.records": 1}
    for records in (5, 0):
        with headrace.Connector(config) as connector:
            assert connector.ready(180), connector.status()
            deadline = time.monotonic() + 180
            while not (connector.status()["ready"] and connector.status()["records_total"] >= records):
                assert connector.is_running and time.monotonic() < deadline, connector.status()
                time.sleep(0.1)
            try:
                headrace.Connector(config).start()
            except headrace.HeadraceError as error:
                print(json.dumps(str(error)))
        print(json.dumps([connector.wait(), connector.status()["role"]]))
"""

_FAILED: Final = """
    import headrace

    config = {"name": NAME, "topics": TOPIC, "bootstrap.servers": KAFKA, "aws.s3.bucket.name": BUCKET + "-n",
              "aws.s3.endpoint": S3, "aws.access.key.id": "test", "aws.secret.access.key": "test",
              "state.dir": FOLDER, "http.listen": ""}
    connector = headrace.Connector(config).start()
    try:
        print(json.dumps(connector.ready(60)))
    except headrace.HeadraceError as error:
        print(json.dumps(str(error)))
    status = connector.status()
    print(json.dumps([status["role"], status["ready"], status["problems"], connector.is_running]))
"""


def _run(program: str, archive: Archive, name: str) -> list[Any]:
    """What a program printed, a JSON value a line."""
    given: dict[str, object] = {
        "BUCKET": archive.bucket,
        "TOPIC": archive.topic,
        "KAFKA": kafka.address(),
        "S3": aws.address(),
        "NAME": name,
        "FOLDER": str(archive.folder),
    }
    # Spark's own default is whatever python3 is on the PATH.
    python = "import os, sys\nos.environ['PYSPARK_PYTHON'] = sys.executable\n"
    head = "import json\n" + python + "".join(f"{each} = {value!r}\n" for each, value in given.items())
    ended = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(program)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=360,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_quix_by_its_own_names(tmp_path: Path) -> None:
    """The objects that Quix would write, and a bucket that is not there is one sentence."""
    archive, name = new_archive(tmp_path, partitions=1), aws.unique("quix")
    archive.produce(
        {"key": b"k%d" % number, "value": b'{"n":%d}' % number, "timestamp": 1000 + number}
        for number in range(3)
    )

    missing, code = _run(_QUIX, archive, name)

    assert missing.startswith(f"S3Destination('{archive.bucket}-other'): ")
    assert code == 0
    folder = f"data/{archive.topic.replace('-', '_')}/0/"
    found = archive.keys()
    assert {key: archive.content(key) for key in found} == {
        f"{folder}{0:019}.jsonl": b'{"_timestamp":1000,"_key":"k0","_value":{"n":0}}\n'
        b'{"_timestamp":1001,"_key":"k1","_value":{"n":1}}\n',
        f"{folder}{2:019}.jsonl": b'{"_timestamp":1002,"_key":"k2","_value":{"n":2}}\n',
    }
    assert group_offsets(name, archive.topic, 1) == {0: 3}


def test_a_connector_is_started_and_stopped_twice_in_a_process(tmp_path: Path) -> None:
    """Everything that was there is archived once, and a second one beside it is refused."""
    archive = new_archive(tmp_path, partitions=1)
    archive.produce({"value": b'{"n":%d}' % number} for number in range(5))

    refused, first, _, second = _run(_CONNECTOR, archive, aws.unique("connector"))

    assert refused.startswith("Another connector runs in this process")
    assert first == second == [0, "stopped"]
    assert archive.account() == (0, 0)


def test_a_start_that_failed_says_why(tmp_path: Path) -> None:
    """Whoever waits for it to be ready is told, and whoever looks later as well."""
    archive = new_archive(tmp_path)

    said, status = _run(_FAILED, archive, aws.unique("failed"))

    assert "NoSuchBucket" in said
    assert status == ["stopped", False, {"ended": said}, False]
