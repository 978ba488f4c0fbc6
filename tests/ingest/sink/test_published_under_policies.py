"""What the makers publish, whole: their configuration, under the policy that their page tells one to allow.

A proxy in front of S3 refuses every other action, as IAM would. The sink is killed in the middle, so that
unfinished uploads are found again under that policy, too.
"""

import base64
import gzip
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from bench.stage import Service
from tests.headrace.formats.encoding.registry import datum, http_registry
from tests.sink.archive_account import Archive, new_archive
from tests.sink.test_sink_end_to_end import group_offsets
from tests.support import aws, kafka
from tests.support.iam_proxy import Guard
from tests.support.proxy import Proxy
from tests.support.published_configurations import CONFLUENT, LENSES, LENSES_KCQL
from tests.support.published_policies import NEEDED
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

_SCHEMA: Final = {"type": "record", "name": "Event", "fields": [{"name": "n", "type": "long"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """A maker's published configuration, records for it, and what its objects are.

    `values` makes those of the records, `row` is what a record becomes, `rows` reads an object, `names` fits
    its key. With `has_keys` records have keys, and times of their own. `tail` counts the last records, which
    that maker leaves unwritten. `parts` is how many parts the largest object has at least.
    """

    allowed: frozenset[str]
    options: Callable[[Archive, str], dict[str, Any]]
    values: Callable[[], list[bytes]]
    row: Callable[[int, bytes], Any]
    rows: Callable[[bytes], list[Any]]
    names: str
    has_keys: bool = True
    tail: int = 0
    parts: int = 1


def _aiven(archive: Archive, url: str) -> dict[str, Any]:
    return {
        "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "aws.s3.bucket.name": archive.bucket,
        "aws.s3.endpoint": url,
        "aws.s3.prefix": "example-s3-sink/",
        "aws.s3.region": "us-east-1",
        "file.compression.type": "gzip",
        "format.output.fields": "value,key,timestamp",
        "tasks.max": 1,
        "topics": archive.topic,
    }


def _confluent(archive: Archive, url: str) -> dict[str, Any]:
    return CONFLUENT | {
        "s3.bucket.name": archive.bucket,
        "store.url": url,
        "errors.deadletterqueue.topic.name": kafka.new_topic("dlq"),
        "topics": archive.topic,
    }


def _lenses(archive: Archive, url: str) -> dict[str, Any]:
    return LENSES | {
        "connect.s3.kcql": LENSES_KCQL.format(bucket=archive.bucket, topic=archive.topic),
        "connect.s3.custom.endpoint": url,
        "topics": archive.topic,
        # Whether Lenses' own sink has left locks cannot be told without s3:ListBucket, which its page lacks.
        "takeover.indexes": "none",
    }


def _quix(archive: Archive, url: str) -> dict[str, Any]:
    # Its sink is configured by arguments in Python; these are their names here (docs/moving-from-quix.md).
    return {
        "connector.class": "HeadraceSink",
        "topics": archive.topic,
        "aws.s3.endpoint": url,
        "aws.s3.bucket.name": archive.bucket,
        "aws.s3.prefix": "data/",
        "output.layout": "quix",
        "output.format": "json",
        "file.compression.type": "gzip",
        "file.name.template": "{{topic:hyphens=_}}/{{partition}}/{{start_offset:padding=19}}.jsonl.gz",
        "rotate.records": 500,
    }


def _long_values() -> list[bytes]:
    """Values that do not compress, so that parts are full."""
    chance = random.Random(7)
    return [b'{"n":%d,"x":"%s"}' % (n, base64.b64encode(chance.randbytes(300_000))) for n in range(24)]


def _members(body: bytes) -> bytes:
    return gzip.decompress(body)


_MAKERS: Final = {
    "aiven": _Maker(
        allowed=NEEDED["aiven"],
        options=_aiven,
        values=_long_values,
        row=lambda n, value: b"%s,%s,%d" % (base64.b64encode(value), base64.b64encode(b"k%d" % n), 1000 + n),
        rows=lambda body: _members(body).split(b"\n"),
        names=r"example-s3-sink/{topic}-0-\d{{20}}\.gz",
        parts=2,
    ),
    "confluent": _Maker(
        allowed=NEEDED["confluent"],
        options=_confluent,
        values=lambda: [b"\0\0\0\0\1" + datum(_SCHEMA, {"n": n}) for n in range(100_007)],
        row=lambda n, _: n,
        rows=lambda body: pq.read_table(io.BytesIO(body)).column("n").to_pylist(),
        names=r"topics/{topic}/year=\d{{4}}/month=\d\d/day=\d\d/hour=\d\d/{topic}\+0\+\d{{10}}\.snappy\.parquet",
        has_keys=False,
        tail=7,
    ),
    "lenses": _Maker(
        allowed=NEEDED["lenses"],
        options=_lenses,
        values=lambda: [b'{"ts":"%s","n":%d}' % (b"a" if n % 2 else b"b", n) for n in range(12_000)],
        row=lambda _, value: value,
        rows=lambda body: body.splitlines(),
        names=r"demo/ts=[ab]/{topic}\(0_\d{{12}}\)\.json",
    ),
    "quix": _Maker(
        allowed=NEEDED["quix"],
        options=_quix,
        values=lambda: [b'{"n":%d}' % n for n in range(12_000)],
        row=lambda n, _: (1000 + n, n),
        rows=lambda body: [
            (row["_timestamp"], row["_value"]["n"]) for row in map(json.loads, _members(body).splitlines())
        ],
        names=r"data/{topic}/0/\d{{19}}\.jsonl\.gz",
    ),
}
_CASES: Final = [pytest.param(name, marks=() if name == "aiven" else pytest.mark.long) for name in _MAKERS]


@contextmanager
def _registry() -> Iterator[str]:
    answers = {
        "/schemas/ids/1": (200, {"schema": json.dumps(_SCHEMA)}),
        "/schemas/ids/1/versions": (200, []),
    }
    with http_registry(answers) as (registry, _):
        yield registry.urls[0]


@pytest.mark.parametrize("name", _CASES)
def test_the_published_configuration_under_the_published_policy(tmp_path: Path, name: str) -> None:
    """Killed after the first upload has begun, it archives every record once, and needs no other action."""
    maker, archive = _MAKERS[name], new_archive(tmp_path, partitions=1)
    values = maker.values()
    archive.produce(_records(maker, values))
    wanted = Counter(maker.row(n, value) for n, value in enumerate(values[: len(values) - maker.tail]))
    with _registry() as registry, Proxy(aws.address()) as proxy:
        guard = Guard(proxy, maker.allowed)
        options = _as_arguments(maker.options(archive, proxy.url), registry)
        connector = aws.unique(name)
        killed = archive.service(connector, **options)
        killed.start()
        until_sync(lambda: _has_begun(archive), seconds=120, what="an upload")
        killed.kill()
        sink = archive.service(connector, **options)
        if maker.tail:
            _run_until(sink, lambda: _found(maker, archive) == wanted)
        else:
            archive.run(sink)
        parts = {
            int(each) for request in proxy.requests for each in re.findall(r"partNumber=(\d+)", request.path)
        }

    assert _found(maker, archive) == wanted
    # It looks at its start whether the bucket is there, and takes a refusal for yes.
    assert guard.refused == {"s3:GetLifecycleConfiguration", "s3:ListBucket"} - maker.allowed
    # It says in one warning what that would be good for, and goes on.
    assert "allow s3:GetLifecycleConfiguration on" in sink.tail(1000)
    assert max(parts, default=1) >= maker.parts
    pattern = maker.names.format(topic=_in_names(name, archive.topic))
    assert all(re.fullmatch(pattern, key) for key in archive.keys())  # noqa: SIM118 - no mapping
    ends = {0: len(values) - maker.tail}
    group = connector if name == "quix" else f"connect-{connector}"
    assert group_offsets(group, archive.topic, 1) == ends


def _in_names(name: str, topic: str) -> str:
    return topic.replace("-", "_") if name == "quix" else topic


def _records(maker: _Maker, values: list[bytes]) -> Iterator[dict[str, Any]]:
    for n, value in enumerate(values):
        yield {"value": value, **({"key": b"k%d" % n, "timestamp": 1000 + n} if maker.has_keys else {})}


def _run_until(sink: Service, is_done: Callable[[], bool]) -> None:
    """Where the tail stays unwritten, the sink never has nothing left to do."""
    sink.start()
    try:
        until_sync(is_done, seconds=180, what="every record")
    finally:
        assert sink.stop() == 0


def _as_arguments(options: Mapping[str, Any], registry: str) -> dict[str, Any]:
    """Arguments of `Archive.service`, which has options of its own where these have others' names."""
    found = {"aws.s3.endpoint": None, "aws.s3.bucket.name": None, "topics": None, **options}
    if "Avro" in str(options.get("value.converter")):
        for part in ("key", "value"):
            found[f"{part}.converter.schema.registry.url"] = registry
    return {option.replace(".", "__"): value for option, value in found.items()}


def _has_begun(archive: Archive) -> bool:
    uploads = aws.s3().list_multipart_uploads(Bucket=archive.bucket).get("Uploads", ())
    return bool(uploads or archive.keys())


def _found(maker: _Maker, archive: Archive) -> Counter[Any]:
    keys = archive.keys()
    bodies = (aws.s3().get_object(Bucket=archive.bucket, Key=key)["Body"].read() for key in keys)
    return Counter(row for body in bodies for row in maker.rows(body))
