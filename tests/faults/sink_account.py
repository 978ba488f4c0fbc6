"""The account of a sink's campaign: every record of the topic against every object of the bucket."""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.faults.account import Account
from tests.faults.sink_faults import is_completion, place_of
from tests.support import aws, kafka
from tests.support.proxy import Request

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_READERS: Final = 4
_READ_SECONDS: Final = 300.0
_OK: Final = 200
_SIDES: Final = (".keys.", ".headers.")


@dataclass(slots=True, kw_only=True)
class BucketAccount:
    """What a bucket has, and what is wrong with it."""

    records: Account
    objects: int
    faults: list[str] = field(default_factory=list)
    """Objects that were written over or completed twice, and side objects that do not belong to values."""


def bucket_account(
    bucket: str,
    topic: str,
    *,
    endpoint: str,
    bootstrap: str,
    answers: Iterable[tuple[Request, int]],
    has_sides: bool = False,
) -> BucketAccount:
    """The account of a bucket whose versions are kept, by all answers that S3 gave; blocks while it reads."""
    client = aws.s3(endpoint)
    versions = _versions(client, bucket)
    faults = _completion_faults(versions, bucket, answers)
    with ThreadPoolExecutor(_READERS) as readers:
        bodies = dict(
            zip(versions, readers.map(lambda key: _content(client, bucket, key), versions), strict=True)
        )
    client.close()
    if has_sides:
        faults += list(_faults_of_sides(bodies))
    archived = Counter(
        _number(json.loads(line))
        for key, body in bodies.items()
        if not any(side in key for side in _SIDES)
        for line in body.splitlines()
    )
    produced = Counter(
        int(json.loads(record.value or b"")["n"])
        for record in kafka.committed(topic, seconds=_READ_SECONDS, bootstrap=bootstrap)
    )
    lost, twice = produced - archived, archived - produced
    found = Account(
        lost=lost.total(),
        duplicated=twice.total(),
        first_lost=tuple(sorted(lost)[:5]),
        first_duplicated=tuple(sorted(twice)[:5]),
    )
    return BucketAccount(records=found, objects=len(versions), faults=faults)


def completion_faults(
    bucket: str, *, endpoint: str, answers: Iterable[tuple[Request, int]]
) -> tuple[list[str], int]:
    """Objects that were written over or completed twice, and how many objects there are."""
    client = aws.s3(endpoint)
    versions = _versions(client, bucket)
    client.close()
    return _completion_faults(versions, bucket, answers), len(versions)


def _completion_faults(
    versions: Counter[str], bucket: str, answers: Iterable[tuple[Request, int]]
) -> list[str]:
    completed = Counter(
        place_of(request)[1]
        for request, status in answers
        if is_completion(request) and status == _OK and place_of(request)[0] == bucket
    )
    faults = [f"{key} has {count} versions" for key, count in versions.items() if count != 1]
    faults += [f"{key} was completed {count} times" for key, count in completed.items() if count != 1]
    return faults + [f"{key} was completed and is not there" for key in completed if key not in versions]


def _versions(client: "S3Client", bucket: str) -> Counter[str]:
    """How many versions each key has, marks of deletions among them."""
    pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket)
    found: Counter[str] = Counter()
    for page in pages:
        found.update(one["Key"] for one in page.get("Versions", ()))
        found.update(one["Key"] for one in page.get("DeleteMarkers", ()))
    return found


def _content(client: "S3Client", bucket: str, key: str) -> bytes:
    """The plain content of an object of gzip members; zlib.error or AssertionError when it is not whole."""
    packed = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    found = []
    while packed:
        member = zlib.decompressobj(wbits=31)
        found.append(member.decompress(packed))
        assert member.eof, f"{key} ends in the middle of a gzip member"
        packed = member.unused_data
    return b"".join(found)


def _number(row: dict[str, object]) -> int:
    """The number of a record, by its row: an envelope, or the bare value."""
    value = row.get("value", row)
    assert isinstance(value, dict)
    return int(value["n"])


def _faults_of_sides(bodies: dict[str, bytes]) -> Iterator[str]:
    """Rows of keys and headers have to be those of the values, in their order."""
    for key, body in bodies.items():
        if any(side in key for side in _SIDES):
            continue
        stem = key.removesuffix(".jsonl.gz")
        sides = [bodies.get(f"{stem}{side}jsonl.gz") for side in _SIDES]
        if None in sides:
            yield f"{key} is visible without the objects beside it"
            continue
        keys, headers = ([json.loads(line) for line in (side or b"").splitlines()] for side in sides)
        numbers = [_number(json.loads(line)) for line in body.splitlines()]
        if keys != [f"k{number}" for number in numbers]:
            yield f"{key} has other keys beside it"
        if [row["headers"][0]["value"] for row in headers] != [f"h{number}" for number in numbers]:
            yield f"{key} has other headers beside it"
