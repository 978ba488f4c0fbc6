"""What the first start leaves to the past: it belongs to a bucket, and what was moved stays moved."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
from msgspec import UNSET

from headrace.kafka.cache_files import CacheDirectory, LedgerRows, collect_rows
from headrace.kafka.control_records import (
    FIRST_START,
    FirstStart,
    decode_control,
    encode_control,
    first_start_key,
)
from headrace.kafka.ledger_cache import CacheLedgerView, LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.model.ledger_entry import ControlKey, LedgerEntry, State, encode_entry, encode_key
from headrace.model.objects import ObjectId
from ingest.service.source_leader import SourceLeader
from ingest.service.source_start import deciders
from ingest.service.startup import BucketAtStart
from ingest.source.catalogue import ExclusionReason
from ingest.source.first_starts import (
    baseline_from,
    baseline_of,
    begun_again,
    first_start_of,
    other_buckets,
    skipped_keys,
)
from ingest.source.object_selection import object_filter_of
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import listed

_FIRST = FirstStart(at_ms=5, start_key="c")


@pytest.fixture
def cache() -> Iterator[LedgerCache]:
    """A ledger's cache, in memory."""
    identity = LedgerIdentity(cluster_id="cluster", topic="ledger", topic_id="one")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as made:
        yield made


def _remember(cache: LedgerCache, name: str, first: FirstStart) -> None:
    cache.apply(LedgerRows({}, {name: encode_control(first)}), (cache.position or 0) + 1)


def _ingested(cache: LedgerCache, bucket: str) -> None:
    record = encode_key(ObjectId(bucket, "k", "1")), encode_entry(LedgerEntry(state=State.DONE))
    cache.apply(collect_rows([record]), (cache.position or 0) + 1)


def test_another_bucket_has_another_first_start(cache: LedgerCache) -> None:
    """Its keys up to the start key of the first one's are new; and back there, it is remembered."""
    _remember(cache, first_start_key("one").name, _FIRST)

    assert first_start_of(cache, "one") == _FIRST
    assert first_start_of(cache, "two") is None
    assert other_buckets(cache, "two") == ("one",)
    assert other_buckets(cache, "one") == ()
    settings = load_with({"aws.s3.bucket.name": "two", "include.existing": "false"})
    baseline = baseline_of(settings, cache, 9)
    assert (baseline.start_key, baseline.existing_before_ms) == (None, 9)


@pytest.mark.parametrize(("ingested", "is_ours"), [((), True), (("one",), True), (("two",), False)])
def test_a_record_without_a_bucket_is_of_the_bucket_that_the_ledger_knows(
    cache: LedgerCache, ingested: tuple[str, ...], *, is_ours: bool
) -> None:
    """Versions before this one wrote none."""
    _remember(cache, FIRST_START.name, _FIRST)
    for bucket in ingested:
        _ingested(cache, bucket)

    assert first_start_of(cache, "one") == (_FIRST if is_ours else None)
    assert other_buckets(cache, "one") == (() if is_ours else ingested)


class _Ledger:
    """A driver's ledger: commits are read back by the cache, and counted."""

    def __init__(self, cache: LedgerCache) -> None:
        self.cache = cache
        self.commits = 0

    def commit(self, writes: Sequence[tuple[ControlKey, bytes]]) -> None:
        self.commits += 1
        for key, raw in writes:
            self.cache.apply(LedgerRows({}, {key.name: raw}), (self.cache.position or 0) + 1)


def _start(ledger: _Ledger, **options: str) -> FirstStart:
    """A start of the source with these options, up to what it remembers of the first one."""
    return _starts(ledger, **options)["one"]


def _starts(ledger: _Ledger, **options: str) -> dict[str, FirstStart]:
    """The same of all buckets."""
    settings = load_with(
        {"aws.s3.bucket.name": "one", **{key.replace("__", "."): options[key] for key in options}}
    )
    found = SimpleNamespace(
        buckets={bucket: BucketAtStart(now_by_s3_ms=7, uploads=None) for bucket in settings.buckets}
    )
    process = SimpleNamespace(settings=settings, found=found)
    taken: Any = SimpleNamespace(process=process, leadership=None, closing=None, inbox=None)
    connector: Any = None
    ledger_of_it: Any = ledger
    return SourceLeader(taken, connector)._first_starts(ledger_of_it)


@pytest.mark.parametrize(
    ("ingested", "buckets", "named"),
    [
        # 1.0.0 reads on: it knows no record of a bucket.
        pytest.param("one", "one", {}, id="as it was"),
        pytest.param("one", "one,two", {"one": 5, "two": 7}, id="another one next to it"),
        pytest.param("one", "two,one", {"one": 5, "two": 7}, id="another one before it"),
        pytest.param("one", "two", {"one": 5, "two": 7}, id="another one in its place"),
        # Nothing tells whose it is: it is named while it can be known.
        pytest.param("", "one", {"one": 5}, id="nothing was read"),
    ],
)
def test_a_first_start_of_1_0_0_gets_the_name_of_its_bucket_when_that_has_to_be_known(
    cache: LedgerCache, ingested: str, buckets: str, named: dict[str, int]
) -> None:
    """Not before: 1.0.0 refuses a ledger with such a record. Once is enough, in one transaction."""
    ledger = _Ledger(cache)
    _remember(cache, FIRST_START.name, _FIRST)
    if ingested:
        _ingested(cache, ingested)

    for _ in range(2):
        firsts = _starts(ledger, aws__s3__bucket__name=buckets)
        begun = {bucket: first.at_ms for bucket, first in firsts.items()}
        assert begun == {bucket: named.get(bucket, _FIRST.at_ms) for bucket in buckets.split(",")}
        noted = {bucket: first_start_of(cache, bucket) for bucket in named}
        assert {bucket: first and first.at_ms for bucket, first in noted.items()} == named
    written = {key.name for key in cache.controls()} - {FIRST_START.name}
    assert written == {first_start_key(bucket).name for bucket in named}
    assert ledger.commits == bool(named)


def test_a_bucket_that_is_added_takes_no_first_start_of_another(cache: LedgerCache) -> None:
    """Though the ledger has no object of either: what is there already is old."""
    ledger = _Ledger(cache)
    _remember(cache, FIRST_START.name, _FIRST)
    assert _starts(ledger)["one"].at_ms == 5
    firsts = _starts(ledger, aws__s3__bucket__name="two,one")
    assert {bucket: first.at_ms for bucket, first in firsts.items()} == {"one": 5, "two": 7}


def test_what_a_start_moves_to_is_in_the_ledger_before_anything_is_moved(cache: LedgerCache) -> None:
    """Later starts, without the option and with another one, add to it and forget none of it."""
    ledger = _Ledger(cache)
    moving, tagging = {"post__action": "move:in/done/"}, {"post__action": "tag:ingested=yes"}
    for options, moved in (
        (moving, ("in/done/",)),
        ({}, ("in/done/",)),
        (tagging, ("in/done/",)),
        ({"post__action": "move:in/old/"}, ("in/done/", "in/old/")),
        (moving, ("in/done/", "in/old/")),
    ):
        first = _start(ledger, aws__s3__prefix="in/", **options)
        assert first.moved_to == moved
        assert first_start_of(cache, "one") == first, "it is committed when the start continues"
        assert (first.at_ms, first.prefix) == (7, "in/")
        baseline = baseline_of(load_with({"aws.s3.bucket.name": "one", "aws.s3.prefix": "in/"}), cache, 99)
        assert baseline.moved_to == moved
    assert ledger.commits == 2, "what the ledger says already is not written again"


def test_moved_objects_that_a_start_reads_again_are_spoken_of(cache: LedgerCache) -> None:
    """The prefix lies where objects were moved to: whoever says so reads them, and it is logged."""
    ledger = _Ledger(cache)
    _start(ledger, aws__s3__prefix="in/", post__action="move:in/done/")
    with structlog.testing.capture_logs() as logged:
        first = _start(ledger, aws__s3__prefix="in/done/")

    assert first.moved_to == ("in/done/",)
    assert [(each["event"], each["prefix"]) for each in logged] == [("moved_objects_read", "in/done/")]


# What lies in another bucket hides nothing of this one.
_ELSEWHERE = {"post.action": "move:s3://cold/in/new/"}


def test_what_was_moved_is_not_read_again_without_the_option() -> None:
    """Moved below the source's own prefix, it would come once more as soon as the option changes."""
    first = FirstStart(at_ms=5, moved_to=("in/done/", "in/old/"))
    for action in ({}, {"post.action": "move:in/else/"}, {"post.action": "delete"}, _ELSEWHERE):
        settings = load_with({"aws.s3.prefix": "in/", **action})
        found = object_filter_of(settings, baseline_from(settings, first))
        for key in ("in/done/a", "in/old/a"):
            assert found.route_or_reason(key) is ExclusionReason.MOVED
        assert found.route_or_reason("in/new/a") is not ExclusionReason.MOVED


def test_a_prefix_that_lies_where_objects_were_moved_is_read() -> None:
    """Whoever says so wants them again."""
    settings = load_with({"aws.s3.prefix": "in/done/"})
    found = object_filter_of(settings, baseline_from(settings, FirstStart(at_ms=5, moved_to=("in/done/",))))

    assert found.route_or_reason("in/done/a") is not ExclusionReason.MOVED


def test_another_prefix_is_another_first_start_of_the_keys_outside_the_first_one() -> None:
    """The start key of the first prefix left out all keys of one that comes before it in the alphabet."""
    first = begun_again(FirstStart(at_ms=5_000, start_key="z/5"), None, "z/")
    assert first.covers("z/")
    assert first.covers("z/y/")
    assert not first.covers("a/")
    then = begun_again(FirstStart(at_ms=90_000), first, "")
    assert then.covers("")
    assert decode_control(first_start_key("one"), encode_control(then)) == then

    settings = load_with({"include.existing": "false"})
    found = object_filter_of(settings, baseline_from(settings, then))

    def reason(key: str, at_ms: int) -> object:
        return found.listed_route_or_reason(listed(key, last_modified_ms=at_ms))

    assert reason("z/4", 99_000) is ExclusionReason.START_KEY
    assert reason("z/6", 4_000) is ExclusionReason.EXISTING
    assert not isinstance(reason("z/6", 6_000), ExclusionReason), "uploaded while the change was made"
    assert reason("a/1", 6_000) is ExclusionReason.EXISTING
    assert not isinstance(reason("a/1", 99_000), ExclusionReason)


def test_back_at_a_prefix_its_own_first_start_counts() -> None:
    """And what was moved away stays moved, whatever the prefix is."""
    first = begun_again(FirstStart(at_ms=5, start_key="a/5", moved_to=("done/",)), None, "a/")
    then = begun_again(FirstStart(at_ms=9, start_key="b/5"), first, "b/")

    assert then.covers("a/x/")
    assert then.moved_to == ("done/",)
    assert [one.below for one in then.all] == ["b/", "a/"]
    settings = load_with({})
    found = object_filter_of(settings, baseline_from(settings, then))
    for key in ("a/4", "b/4"):
        assert found.listed_route_or_reason(listed(key)) is ExclusionReason.START_KEY
    for key in ("a/6", "b/6", "c/1"):
        assert not isinstance(found.listed_route_or_reason(listed(key)), ExclusionReason)


def test_listings_skip_no_keys_of_several_first_starts_or_of_none() -> None:
    """With several, the filter tells by the key which of them counts."""
    settings = load_with({})
    first = FirstStart(at_ms=5, start_key="a/5")
    assert skipped_keys({"one": baseline_from(settings, first)}) == {"one": "a/5"}
    for each in (FirstStart(at_ms=5), begun_again(FirstStart(at_ms=9, start_key="b/5"), first, "b/")):
        assert skipped_keys({"one": baseline_from(settings, each)}) == {}


@pytest.mark.parametrize(("start_key", "looks"), [("in/c", True), (None, False)])
def test_a_start_looks_into_the_ledger_for_what_is_owed_up_to_its_start_key(
    cache: LedgerCache, start_key: str | None, *, looks: bool
) -> None:
    """No listing shows it."""
    settings = load_with({"post.action": "delete"})
    first = FirstStart(at_ms=5, start_key=start_key)
    baselines = {settings.s3.bucket: baseline_from(settings, first)}
    view = CacheLedgerView(cache)
    catalogue, _ = deciders(settings, view, {settings.s3.bucket: first}, baselines, slots=1)
    assert catalogue.is_taking_stock == looks


def test_all_first_starts_share_the_room_of_one_record() -> None:
    """Each had half a megabyte of uploads of its own: with three the brokers refused the record, for ever."""
    then = None
    for number, prefix in enumerate(("in/eu/", "in/", "")):
        uploads = {f"in/eu/{at_ms:06}{'x' * 90}": at_ms for at_ms in range(4_000)}
        with structlog.testing.capture_logs() as logged:
            then = begun_again(FirstStart(at_ms=9_000 + number, uploads=uploads), then, prefix)
        assert [one["event"] for one in logged] == ["uploads_left_out"] * (number > 0)
    assert then is not None
    assert len(encode_control(then)) < 600_000
    oldest = [min(one.uploads.values()) for one in then.all if one.uploads is not UNSET]
    assert len(oldest) == 3
    assert max(oldest) - min(oldest) <= 1, "the newest of each are remembered"
