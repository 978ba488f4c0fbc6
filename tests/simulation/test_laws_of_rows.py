"""Laws of the simulation find what they are for: versions out of order, and nulls that are twice there."""

import asyncio
import io
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import pytest
from botocore.exceptions import ClientError

from headrace.model.objects import ObjectId
from tests.simulation.bare_nulls import bare_rows
from tests.simulation.environment import Environment
from tests.simulation.s3 import StoredObject
from tests.simulation.scenario import Given
from tests.simulation.schemas import AVRO
from tests.simulation.version_order import VersionOrder


@pytest.mark.parametrize(
    ("is_ordered", "read", "shown", "is_pair"),
    [
        (False, 13.0, None, True),
        (True, 13.0, 15.0, True),
        (True, 13.0, 12.0, False),
        (False, 13.0, 12.0, True),
        (False, 650.0, 12.0, False),
        (False, 650.0, 700.0, True),
    ],
)
def test_a_version_is_free_only_by_what_was_shown_before_its_read(
    read: float, shown: float | None, *, is_ordered: bool, is_pair: bool
) -> None:
    """The HEAD about the first is asked at 10 s and answered at 900 s; the second is known from 12 s on."""
    assert asyncio.run(_pairs(is_ordered, read, shown)) == ([(1, 2)] if is_pair else [])


async def _pairs(is_ordered: bool, read: float, shown: float | None) -> list[tuple[int, int]]:
    bucket: Any = SimpleNamespace(versioned=set(), objects={}, versions={})
    kernel, queue = SimpleNamespace(now=0.0), SimpleNamespace()
    made = SimpleNamespace(bucket=bucket, kernel=kernel, queue=queue)
    order = VersionOrder(cast("Environment", made), 1, is_ordered=is_ordered)
    order.begin(1.0)
    first, second = ({"Bucket": "b", "Key": "k", "IfMatch": etag} for etag in ("1", "2"))
    order.put(1, ObjectId("b", "k", "1"))
    order.put(2, ObjectId("b", "k", "2"))
    listed = {"Contents": [{"Key": "k", "ETag": '"2"'}]}
    events: list[tuple[float, Callable[[], Any]]] = [
        (10.0, lambda: bucket.on_asked("head_object", first)),
        (12.0, lambda: bucket.on_answered("head_object", second, {})),
        (read, lambda: bucket.on_call("GetObject", second)),
        (900.0, lambda: bucket.on_answered("head_object", first, {})),
    ]
    if shown is not None:
        events.append((shown, lambda: bucket.on_answered("list_objects_v2", {"Bucket": "b"}, listed)))
    for kernel.now, happens in sorted(events, key=lambda one: one[0]):
        with suppress(ClientError):
            happens()
    return list(order.pairs())


def test_the_first_row_of_an_object_is_that_of_its_name() -> None:
    """A null that has a dead letter too is twice there, and the next one is lost."""
    body = io.BytesIO()
    fastavro.writer(body, ["null", "string"], [None])
    expected = {("t", 0, offset): Given("t", 0, b"a", None, 0) for offset in (1, 2)}
    stored = StoredObject(body.getvalue(), '"etag"', {}, 0)
    rows = bare_rows({"all/t/0-1": stored}, AVRO, expected, {("t", 0, 1)})
    assert [(row.topic, row.partition, row.offset) for row in rows] == [("t", 0, 1)]
