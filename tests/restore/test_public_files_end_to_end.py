"""Published configurations of the vendors' sources, run as they are but for bucket, topic and log-in."""

import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import aws, kafka
from tests.support.hosted import Hosted
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

_FOLDER: Final = Path(__file__).parents[1] / "cases" / "public"
_ROW: Final = {"f": "v"}
_LINE: Final = b'{"f":"v"}'
_LINES: Final = _LINE + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A file, the topic that it names, an object for it, and the values that come of it."""

    file: str
    named: str = ""
    key: str
    content: bytes
    values: tuple[bytes, ...] = (_LINE,)
    topic: str = "{topic}"


def _avro() -> bytes:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "string"}]}
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(schema), [_ROW])
    return written.getvalue()


def _parquet() -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"f": ["v"]}), written)
    return written.getvalue()


def _envelope() -> bytes:
    row = {"value": _ROW, "metadata": {"timestamp": 1, "topic": "orders", "partition": 0, "offset": 0}}
    return gzip.compress(json.dumps(row, separators=(",", ":")).encode() + b"\n")


_ARCHIVED: Final = "{topic}/partition=0/{topic}+0+0000000000"
_CASES: Final = (
    _Case(file="confluent-source-generalized", named="first-topic", key="quickstart/a.json", content=_LINES),
    _Case(file="confluent-source-without-region", named="people-data:", key="people-data/a", content=_LINES),
    _Case(file="confluent-source-learning-page", key=f"connect-s3-source/{_ARCHIVED}.json", content=_LINES),
    _Case(
        file="confluent-source-integration-test",
        key=f"topics/{_ARCHIVED}.bin",
        content=b"a\nb\n",
        values=(b"a", b"b"),
    ),
    _Case(
        file="confluent-source-quickstart-file",
        key=f"topics/{_ARCHIVED}.avro",
        content=_avro(),
        topic="copy_of_{topic}",
    ),
    _Case(file="lenses-source-docs", named="topic-a", key="prefix/a.parquet", content=_parquet()),
    _Case(
        file="lenses-source-issue-888",
        named="my_topic",
        key="dev/domain_name/year=2022/month=11/a.json",
        content=_LINES,
    ),
    _Case(
        file="lenses-source-issue-903",
        named="backup-restore",
        key="streamreactor/backup/0/000000000000.json",
        content=_LINES,
    ),
    _Case(file="lenses-source-snowflake", named="into users", key="users/a", content=_LINES),
    _Case(file="lenses-source-strimzi", named="extract-topic", key="kafka/b/c.json", content=_LINES),
    _Case(
        file="lenses-source-msk-restore",
        named="into orders",
        key="topics/orders/0/000000000000_1_1.gz",
        content=_envelope(),
    ),
)


def _options(case: _Case, place: str, topic: str) -> Mapping[str, str]:
    """The file's own lines, with our bucket, topic, address and keys."""
    config = json.loads((_FOLDER / f"{case.file}.json").read_text())["config"]
    if case.named:
        ours = case.named.replace(case.named.split()[-1].rstrip(":"), topic)
        config = {
            name: str(text).replace(case.named, ours)
            if name in ("topic.regex.list", "connect.s3.kcql")
            else text
            for name, text in config.items()
        }
    found = {name: str(text).replace("bucket-a", place) for name, text in config.items()}
    if found["connector.class"].startswith("io.confluent"):
        # Objects of keys, which do not come here, are waited for by a restore.
        waits = {} if "mode" in found else {"restore.sidecars.wait.ms": "1000"}
        return (
            found
            | waits
            | {
                "store.url": aws.address(),
                "s3.region": "us-east-1",
                "aws.access.key.id": "test",
                "aws.secret.access.key": "test",
            }
        )
    return found | {
        "connect.s3.custom.endpoint": aws.address(),
        "connect.s3.vhost.bucket": "true",
        "connect.s3.aws.auth.mode": "Credentials",
        "connect.s3.aws.access.key": "test",
        "connect.s3.aws.secret.key": "test",
        "connect.s3.aws.region": "us-east-1",
    }


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.file)
def test_a_published_file_brings_its_object(case: _Case, shared_worker: WorkerProcess) -> None:
    """Each value once, in its topic."""
    name, place = aws.unique("public"), aws.new_bucket()
    topic = kafka.new_topic(name=case.topic.format(topic=name))
    aws.s3().put_object(Bucket=place, Key=case.key.format(topic=name), Body=case.content)
    connector = Hosted(worker=shared_worker, name=name, options=_options(case, place, name))
    connector.start()
    try:
        until_sync(
            lambda: connector.status()["objects"].get("done", 0) == 1, seconds=60, what="its object's end"
        )
    finally:
        connector.stop()

    assert [each.value for each in kafka.committed(topic)] == list(case.values)
