"""What AWS writes, through the whole service: an inner array, objects without line ends, lines of logs."""

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import aws, kafka
from tests.support.run import start_run
from tests.support.service import new_route

# What each format makes of its bytes is in tests/headrace/formats, in milliseconds.
pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]

_EVENTS: Final = [{"eventID": f"{number}", "userIdentity": {"type": "Root"}} for number in range(2_000)]
_FLOWS: Final = [{"srcaddr": "10.0.0.1", "bytes": number, "action": "ACCEPT"} for number in range(2_000)]
_JSON: Final = {"input__format": "json"}


@pytest.mark.parametrize(
    ("name", "content", "options", "rows"),
    [
        pytest.param(
            "trail-2026.json.gz",
            gzip.compress(json.dumps({"Records": _EVENTS}).encode()),
            {**_JSON, "json__path": "$.Records[*]"},
            _EVENTS,
            id="CloudTrail",
        ),
        pytest.param(
            "stream-2026.gz",
            gzip.compress("".join(map(json.dumps, _EVENTS)).encode()),
            _JSON,
            _EVENTS,
            id="Firehose",
        ),
        pytest.param(
            "flows-2026.log",
            "\n".join(
                ["srcaddr bytes action", *(f"10.0.0.1 {flow['bytes']} ACCEPT" for flow in _FLOWS)]
            ).encode(),
            {
                "input__format": "text",
                "text__pattern": "vpc-flow",
                "ordering": "none",
                "job__max__bytes": 20_000,
            },
            _FLOWS,
            id="flow logs in splits",
        ),
    ],
)
def test_every_row_arrives_once_and_says_where_it_was(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """In many transactions and batches, with a field and a header of the key, and moved to another bucket."""
    route = new_route(tmp_path)
    archive = aws.new_bucket()
    aws.s3().put_object(Bucket=route.bucket, Key=name, Body=content)
    run = start_run(
        route,
        "--until-idle",
        name=aws.unique("aws-files"),
        file__name__template="[a-z]+-{{timestamp:unit=yyyy}}",
        record__fields="{{timestamp:unit=yyyy}}:year",
        record__headers="template:{{timestamp:unit=yyyy}}:year",
        transaction__boundary__records=300,
        job__linger__ms=0,
        post__action=f"move:s3://{archive}/read/",
        post__action__unconditional="true",
        **options,
    )
    try:
        code = run.process.wait(280)
        assert code == 0, run.log.read_text()[-2000:]
    finally:
        run.end()

    records = list(kafka.committed(route.topic))
    found = sorted((json.loads(record.value or b"null") for record in records), key=json.dumps)
    assert found == sorted(({**row, "year": "2026"} for row in rows), key=json.dumps)
    assert {record.headers for record in records} == {(("year", b"2026"),)}
    assert [each["Key"] for each in aws.s3().list_objects_v2(Bucket=archive)["Contents"]] == [f"read/{name}"]
    assert not aws.s3().list_objects_v2(Bucket=route.bucket).get("Contents")
