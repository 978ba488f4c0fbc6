"""Discovery by listing alone: a prefix of more than one page, thousands of keys, uploads under way.

What configuration leaves out is in `tests/simulation/discovery_courses.py`, pages in `talk_s3` beside it.
"""

import uuid
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import pytest

from bench.stage import Service
from tests.support import aws, kafka
from tests.support.discovery import await_all, await_full_listing, metric, running, upload_all
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]

PREFIX: Final = "in/"
# One page of a listing has 1,000 keys.
MORE_THAN_A_PAGE: Final = 1_050
OUTSIDE: Final = (
    "a",
    "i",
    "im/z",
    "in",
    "in-/a",
    "in.",
    "in0/a",
    "in\N{LATIN SMALL LETTER E WITH ACUTE}",
    "z/in/a",
)
# Without a character that has to be escaped: LocalStack compares keys in their escaped form.
START_KEY: Final = "in/-start.jsonl"


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    """A bucket with more than a page under the prefix, and neighbours of it before and behind."""
    route = new_route(tmp_path_factory.mktemp("listing"))
    upload_all(
        route, {f"in/page/{number:05}.jsonl": rows(f"page-{number}", 1) for number in range(MORE_THAN_A_PAGE)}
    )
    # More of the neighbours than fit beside the prefix in one page, too.
    outside = [f"{stem}{number:02}.jsonl" for stem in OUTSIDE for number in range(6)]
    upload_all(route, {key: rows(key, 1) for key in outside}, counts=False)
    upload_all(route, {key: rows(key, 1) for key in ("in/-a.jsonl", START_KEY)}, counts=False)
    return route


@pytest.fixture(scope="module")
def service(route: Route) -> Iterator[Service]:
    """A service without a queue that lists in full every half second; `auto` would not, it takes longer."""
    options = {
        "sqs__queue__url": None,
        "aws__s3__prefix": PREFIX,
        "poll__interval__ms": 500,
        "poll__listing": "full",
        "native__start__key": START_KEY,
        "object__include": "*.jsonl",
    }
    with running(route.service(aws.unique("listing"), **options)) as service:
        yield service


@pytest.mark.long
def test_every_page_is_of_the_prefix_alone(route: Route, service: Service) -> None:
    """All of more than a page, and none of the keys beside it; nor what is not behind the start key."""
    await_all(service, route, seconds=180)
    await_full_listing(service)

    assert route.account() == (0, 0)
    assert service.status()["mode"] == "listing"
    assert service.status()["objects"]["done"] == MORE_THAN_A_PAGE
    keys = {record.key or b"" for record in kafka.committed(route.topic)}
    assert all(key.startswith(b"in/page/") for key in keys)
    # They are not even asked for: S3 filters, on every page.
    assert metric(service, "headrace_objects_total", state="ignored") == 0


@pytest.mark.long
def test_five_thousand_random_keys(route: Route, service: Service) -> None:
    """5,000 of 5,000, without a restart."""
    arrive(route, service, 5_000)


def arrive(route: Route, service: Service, count: int) -> None:
    """Upload so many objects in ten parts, with listings between them, and account for every row."""
    await_all(service, route, seconds=180)
    until_sync(lambda: service.status()["pending_objects"] == 0, seconds=60, what="all before it shown")
    done = service.status()["objects"]["done"]
    part = count // 10
    for begin in range(0, count, part):
        listed = metric(service, "headrace_list_requests_total")
        numbers = range(begin, begin + part)
        upload_all(route, {f"in/{uuid.uuid4()}.jsonl": rows(f"{count}-{number}", 2) for number in numbers})
        until_sync(
            lambda listed=listed: metric(service, "headrace_list_requests_total") > listed,  # type: ignore[misc] # the default binds the loop's variable
            seconds=60,
            what="a listing meanwhile",
        )
    await_all(service, route, seconds=60 + count / 50)

    assert route.account() == (0, 0)
    # What is shown follows what is in Kafka by moments.
    until_sync(
        lambda: service.status()["objects"]["done"] - done >= count, seconds=60, what="all of them shown"
    )
    assert service.status()["objects"]["done"] - done == count


def test_an_upload_under_way_at_the_first_start_is_not_existing(tmp_path: Path) -> None:
    """S3 dates a multipart object back to where its upload began; complete is it only now.

    It is completed after a second start: what was under way at the first one is in the ledger.
    """
    route = new_route(tmp_path)
    s3 = aws.s3()
    begun: Any = {"Bucket": route.bucket, "Key": "late.jsonl"}
    upload_id = s3.create_multipart_upload(**begun)["UploadId"]
    route.upload("existing.jsonl", rows("existing", 1), counts=False)

    def date() -> datetime:
        answer = s3.list_objects_v2(Bucket=route.bucket)
        there = answer["Contents"][0]["LastModified"]
        now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
        return max(there, now)

    late = date()
    until_sync(lambda: date() > late, what="a second later by S3's clock")
    name = aws.unique("late")
    options = {
        "sqs__queue__url": None,
        "poll__interval__ms": 500,
        "poll__listing": "full",
        "include__existing": False,
    }
    with running(route.service(name, **options)) as service:
        await_full_listing(service)
    with running(route.service(name, **options)) as service:
        lines = rows("late", 3)
        part = s3.upload_part(
            **begun, UploadId=upload_id, PartNumber=1, Body=b"".join(line + b"\n" for line in lines)
        )
        s3.complete_multipart_upload(
            **begun,
            UploadId=upload_id,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
        )
        route.uploaded.update(lines)
        route.await_rows(seconds=60)
        await_full_listing(service)
        assert route.account() == (0, 0)
