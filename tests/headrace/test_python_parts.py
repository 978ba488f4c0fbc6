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
    config = {**config, "aws.s3.bucket.name": BUCKET, "tasks.max": 1, "rotate.records": 1}
    ended = headrace.Connector(config, until_idle=True).start()
    print(json.dumps([ended.wait(180), ended.status()["role"]]))
    with headrace.Connector(config) as connector:
        assert connector.ready(180), connector.status()
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


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """A topic of five records."""
    made = new_archive(tmp_path_factory.mktemp("python"), partitions=1)
    made.produce({"value": b'{"n":%d}' % number} for number in range(5))
    return made


@pytest.fixture(scope="module")
def said(archive: Archive) -> list[Any]:
    """What one process says of a start that fails, and of two that do not: what it imports takes seconds."""
    return _run(_FAILED + _CONNECTOR, archive, aws.unique("connector"))


def test_a_start_that_failed_says_why(said: list[Any]) -> None:
    """Whoever waits for it to be ready is told, and whoever looks later as well."""
    sentence, status = said[:2]

    assert "NoSuchBucket" in sentence
    assert status == ["stopped", False, {"ended": sentence}, False]


def test_a_connector_is_started_twice_in_a_process(archive: Archive, said: list[Any]) -> None:
    """Until nothing is left, and until it is stopped: each record once, and a second one is refused."""
    until_idle, refused, stopped = said[2:]

    assert until_idle == stopped == [0, "stopped"]
    assert refused.startswith("Another connector runs in this process")
    assert archive.account() == (0, 0)
