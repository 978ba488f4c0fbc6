from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.kafka.cache_files import CacheDirectory, collect_rows
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.text_formatting import bytes_text
from ingest.checks.probes.bucket_keys import AwsClients
from ingest.checks.probes.preview import Preview
from ingest.cli.plan import REASONS, forecasts_of, lines_of, shape_of
from ingest.source.catalogue import Baseline, ExclusionReason, ObjectFilter
from tests.ingest.checks.findings.configured import configured

NOW_MS = 10_000_000


def _route(key: str) -> Route | None:
    return None if key.startswith("x") else Route(topic="t", partition=int(key[-1]))


def _object(key: str, *, size: int = 7, storage_class: str | None = None) -> S3Object:
    return S3Object(
        id=ObjectId("bucket", key, "e"), size=size, last_modified_ms=1000, storage_class=storage_class
    )


def _entry(state: State, reason: str | None = None) -> LedgerEntry:
    return LedgerEntry(state=state, reason=reason, size=7, last_modified_ms=1000)


@pytest.mark.parametrize(
    ("seen", "entry", "counted"),
    [
        pytest.param(_object("a0"), None, {"pending"}, id="unknown"),
        pytest.param(_object("a0"), _entry(State.DONE), {"done"}, id="done"),
        pytest.param(_object("a0"), _entry(State.PARTIAL), {"pending", "begun"}, id="partial"),
        pytest.param(_object("a0"), _entry(State.FAILED), {"pending", "begun"}, id="failed"),
        pytest.param(_object("a0"), _entry(State.NEW), {"pending", "begun"}, id="asked for again"),
        pytest.param(_object("a0"), _entry(State.QUARANTINED), {"quarantined"}, id="quarantined"),
        pytest.param(_object("a0"), _entry(State.SKIPPED, "empty"), {"skipped"}, id="skipped for good"),
        pytest.param(_object("a0"), _entry(State.SKIPPED, "missing"), {"pending"}, id="there again"),
        pytest.param(_object("a0", size=0), None, {"skipped"}, id="empty"),
        pytest.param(_object("a0", size=0), _entry(State.NEW), {"skipped"}, id="empty, asked for again"),
        pytest.param(_object("a0", storage_class="GLACIER"), None, {"skipped"}, id="archived"),
    ],
)
def test_where_an_object_counts(seen: S3Object, entry: LedgerEntry | None, counted: set[str]) -> None:
    """As `run` would decide on the next listing."""
    forecast = Preview({"bucket": ObjectFilter(route=_route)}, now_ms=NOW_MS)

    forecast.add([(seen, entry)])

    [share] = forecast.as_dict()["partitions"]
    assert {
        name for name, amount in share.items() if isinstance(amount, dict) and amount["objects"]
    } == counted


def test_the_baseline_leaves_out_what_nobody_has_begun() -> None:
    """An object that the ledger knows was begun before, and goes on."""
    intake = ObjectFilter(route=_route, baseline=Baseline(existing_before_ms=2000))
    forecast = Preview({"bucket": intake}, now_ms=NOW_MS)

    forecast.add([(_object("a0"), None), (_object("a1"), _entry(State.PARTIAL))])

    assert forecast.left_out["existing"].examples == ["a0"]
    assert forecast.total().pending.objects == 1


@pytest.mark.parametrize(
    ("entry", "counted"),
    [
        (_entry(State.SKIPPED, "missing"), "skipped"),
        (_entry(State.SKIPPED, "archived"), "skipped"),
        (_entry(State.DONE), "done"),
        (_entry(State.PARTIAL), "pending"),
        (_entry(State.NEW), "pending"),
    ],
)
@pytest.mark.parametrize("has_earlier", [False, True])
def test_up_to_the_start_key_nothing_comes_back(
    entry: LedgerEntry, counted: str, *, has_earlier: bool
) -> None:
    """`run` lists none of it: events have announced what the ledger knows there, and only they bring it back.

    With the start key of an earlier prefix listings look at all keys.
    """
    earlier = (Baseline(prefix="b"),) if has_earlier else ()
    intake = ObjectFilter(route=_route, baseline=Baseline(start_key="a5", earlier=earlier))
    forecast = Preview({"bucket": intake}, now_ms=NOW_MS)
    forecast.add([(_object("a5"), entry)])
    if has_earlier and counted == "skipped":
        counted = "pending"
    assert {name for name in ("done", "pending", "skipped") if getattr(forecast.total(), name).objects} == {
        counted
    }


def test_above_the_start_key_a_listing_brings_it_back() -> None:
    """As without one."""
    forecast = Preview(
        {"bucket": ObjectFilter(route=_route, baseline=Baseline(start_key="a5"))}, now_ms=NOW_MS
    )
    forecast.add([(_object("a6"), _entry(State.SKIPPED, "missing"))])
    assert forecast.total().pending.objects == 1


@pytest.mark.parametrize("size", [0, 7])
def test_people_are_told_of_folders_marks_that_hold_something(size: int) -> None:
    """A record key that ends with a slash makes such a name."""
    settings = configured({"aws.s3.bucket.name": "bucket"})
    forecast = Preview({"bucket": ObjectFilter(route=_route)}, now_ms=NOW_MS)
    forecast.add([(_object("a0"), None), (_object("a/", size=size), None)])

    shown = "\n".join(lines_of(settings, forecast, None, has_ledger=True))

    assert ("not all of them are empty" in shown) == bool(size)


def test_sums_and_examples() -> None:
    """Every listed object is counted once; examples are few."""
    forecast = Preview({"bucket": ObjectFilter(route=_route)}, now_ms=NOW_MS)

    forecast.add((_object(f"x{number}"), None) for number in range(9))
    forecast.add((_object(f"a{number % 3}-{number % 3}"), None) for number in range(30))

    assert forecast.listed.as_dict() == {"objects": 39, "bytes": 39 * 7}
    assert forecast.places() == [("t", 0), ("t", 1), ("t", 2)]
    assert forecast.total().pending.objects == 30
    assert forecast.left_out["unmatched"].objects == 9
    assert len(forecast.left_out["unmatched"].examples) == 5


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_949, "99.9 kB"), (250e6, "250 MB"), (3e18, "3000 PB")],
)
def test_bytes(count: float, text: str) -> None:
    """Decimal units."""
    assert bytes_text(count) == text


def test_each_reason_to_leave_a_key_out_has_words() -> None:
    """`plan` shows them to people."""
    assert set(REASONS) == {reason.value for reason in ExclusionReason}


def test_of_several_buckets_each_is_counted_and_named() -> None:
    """Keys alone would not tell which bucket is meant."""
    forecast = Preview({name: ObjectFilter(route=lambda _: None) for name in ("one", "two")}, now_ms=NOW_MS)
    for bucket, size in (("one", 3), ("two", 4)):
        seen = S3Object(id=ObjectId(bucket, "k", "e"), size=size, last_modified_ms=1000)
        forecast.add([(seen, None)])
    assert {name: one.bytes for name, one in forecast.of_bucket.items()} == {"one": 3, "two": 4}
    assert forecast.left_out["unmatched"].examples == ["one/k", "two/k"]


class _Bucket:
    """One that lists these keys; that of its own no template takes."""

    def __init__(self, keys: Sequence[str] = ("in/stray",), size: int = 1) -> None:
        self._listed = [{"Key": key, "Size": size, "ETag": '"e"'} for key in keys]

    def list_objects_v2(self, **_: object) -> dict[str, Any]:
        """All of it."""
        there = [{**each, "LastModified": datetime(2026, 1, 1, tzinfo=UTC)} for each in self._listed]
        return {"Contents": there, "IsTruncated": False}

    def get_object_tagging(self, **_: object) -> dict[str, Any]:
        """It has none."""
        return {"TagSet": []}


@pytest.mark.parametrize(
    ("known", "is_read"),
    [
        pytest.param(("uploads", "in/orders-0-1"), True, id="read and deleted"),
        pytest.param(("uploads", "in/stray"), True, id="read by another template"),
        pytest.param(("uploads", "out/orders-0-1"), False, id="of another prefix"),
        pytest.param(("else", "in/orders-0-1"), False, id="of another bucket"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_what_was_read_and_is_gone_was_read(known: tuple[str, str] | None, is_read: bool) -> None:
    """`post.action` deletes it, and a stray key stays: `run` has no problem, and `plan` says none."""
    settings = configured(
        {"aws.s3.bucket.name": "uploads", "aws.s3.prefix": "in/", "topic": None}
        | {"file.name.template": "{{topic}}-{{partition}}-{{start_offset}}"}
    )
    identity = LedgerIdentity(cluster_id="c", topic="t", topic_id="i")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as cache:
        if known is not None:
            done = encode_entry(_entry(State.DONE))
            cache.apply(collect_rows([(encode_key(ObjectId(*known, "e")), done)]), 1)
        forecast, _ = forecasts_of(settings, AwsClients(s3=_Bucket(), sqs=None), cache)
        problem = shape_of(settings, forecast, None, [], has_ledger=True)["problem"]

    assert (problem is None) == is_read


@pytest.mark.parametrize("order", ["abcd", "dcba", "cadb"])
def test_what_is_done_is_done_in_whatever_order_it_is_listed(order: str) -> None:
    """A directory bucket lists in no order: entries of keys below the last one were not found."""
    settings = configured({"aws.s3.bucket.name": "uploads", "aws.s3.prefix": "in/"})
    bucket = _Bucket([f"in/{name}" for name in order])
    rows = [
        (encode_key(ObjectId("uploads", f"in/{name}", "e")), encode_entry(_entry(State.DONE)))
        for name in "abc"
    ]
    identity = LedgerIdentity(cluster_id="c", topic="t", topic_id="i")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as cache:
        cache.apply(collect_rows(rows), 1)
        forecast, _ = forecasts_of(settings, AwsClients(s3=bucket, sqs=None), cache)

    total = forecast.total()
    assert (total.done.objects, total.pending.objects) == (3, 1)


@pytest.mark.parametrize(
    ("restored", "partition", "shown"),
    [("original", 7, "7"), ("modulo", None, "modulo"), ("partitioner", None, "by key")],
)
def test_an_archives_partition_is_named_where_it_decides(
    restored: str, partition: int | None, shown: str
) -> None:
    """With `partitioner` keys decide, with `modulo` the number of partitions that the topic has."""
    options = {
        "topic": None,
        "file.name.template": None,
        "sqs.queue.url": None,
        "restore.partition": restored,
    }
    settings = configured({**options, "input.layout": "confluent"})
    bucket = _Bucket(["topics/orders/partition=7/orders+7+0000000042.json"], size=0)

    forecast, archive = forecasts_of(settings, AwsClients(s3=bucket, sqs=None), None)
    text = list(lines_of(settings, forecast, archive, has_ledger=False))

    (share,) = forecast.as_dict()["partitions"]
    assert (share["topic"], share["partition"]) == ("orders", partition)
    assert any(line.startswith(f"orders  {shown} ") for line in text)
