"""An S3 Inventory before the first listing, in a bucket of a real S3, through the whole service."""

from pathlib import Path

import pytest

from tests.support import aws
from tests.support.discovery import metric
from tests.support.hosted import Hosted
from tests.support.inventory import InventoryRow, inventory
from tests.support.service import Route, new_route, rows
from tests.support.until import until_sync
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def _row(route: Route, key: str) -> InventoryRow:
    """The row of an object that is there."""
    found = aws.s3().head_object(Bucket=route.bucket, Key=key)
    modified_ms = int(found["LastModified"].timestamp() * 1000)
    return InventoryRow(
        key=key, etag=found["ETag"].strip('"'), size=found["ContentLength"], modified_ms=modified_ms
    )


def test_what_it_names_and_what_is_newer_comes_once(tmp_path: Path, shared_worker: WorkerProcess) -> None:
    """Of what it names one object is gone and one overwritten; one that it lacks is found by the listing."""
    route = new_route(tmp_path)
    for key in ("in/a b+c.jsonl", "in/é.jsonl", "in/overwritten.jsonl", "in/since.jsonl"):
        route.upload(key, rows(key, 5))
    named = [
        _row(route, "in/é.jsonl"),
        InventoryRow(key="in/gone.jsonl"),
        InventoryRow(key="in/overwritten.jsonl", etag="of-before"),
        InventoryRow(key="other/z.jsonl"),
        _row(route, "in/a b+c.jsonl"),
    ]
    made = inventory(route.bucket, [named[:2], named[2:]], bucket=aws.new_bucket())
    made.put(aws.s3())
    options = {"sqs__queue__url": None, "aws__s3__prefix": "in/", "initial__inventory": made.url}
    hosted = Hosted(worker=shared_worker, name=aws.unique("inventory"), options=route.options(**options))
    hosted.start()
    try:
        until_sync(lambda: hosted.status()["objects"].get("done") == 4, seconds=60, what="all rows")
        until_sync(lambda: hosted.status()["last_full_listing_ms"], seconds=60, what="the listing")
        until_sync(
            lambda: hosted.status()["objects"]["skipped"] == 2, seconds=60, what="what is gone, skipped"
        )
        assert route.account() == (0, 0)
        count = {
            outcome: metric(hosted, "headrace_inventory_rows_total", connector=hosted.name, outcome=outcome)
            for outcome in ("listed", "left_out")
        }
        assert count == {"listed": 4, "left_out": 1}
    finally:
        hosted.stop()
