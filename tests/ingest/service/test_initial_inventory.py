"""When inventories are read: what the record of the first start remembers, and who ends for a bad one."""

from collections.abc import Iterator

import pytest
import structlog.testing
from msgspec.structs import replace

from headrace.formats.inventory_manifest import InventoryRefused
from headrace.kafka.cache_files import CacheDirectory, LedgerRows
from headrace.kafka.control_records import FirstStart, encode_control, first_start_key
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.ledger_topic import LedgerIdentity
from headrace.options import Settings
from ingest.service.source_start import inventories_to_read, require_inventories, with_inventories
from ingest.source.first_starts import awaited_inventories, begun_again
from tests.headrace.options.loading import load_with
from tests.support.inventory import inventory

URL = "s3://inventories/manifest.json"
OTHER = "s3://inventories/other/manifest.json"
MANIFESTS = (inventory("uploads", []).manifest("uploads"),)
PROBLEM = InventoryRefused(URL, "it is not JSON", "Give another")


@pytest.fixture
def cache() -> Iterator[LedgerCache]:
    """A ledger's cache, in memory."""
    identity = LedgerIdentity(cluster_id="cluster", topic="ledger", topic_id="one")
    with LedgerCache(CacheDirectory(path=None, is_shared=False), identity) as made:
        yield made


def _settings(url: str | None = URL, prefix: str = "in/") -> Settings:
    return load_with({"aws.s3.bucket.name": "uploads", "aws.s3.prefix": prefix, "initial.inventory": url})


def _remember(cache: LedgerCache, first: FirstStart) -> None:
    name = first_start_key("uploads").name
    cache.apply(LedgerRows({}, {name: encode_control(first)}), (cache.position or 0) + 1)


def test_a_first_start_reads_it_until_the_listing_after_it_is_over(cache: LedgerCache) -> None:
    """A process that ends in the middle leaves it to the next one."""
    first = with_inventories(FirstStart(at_ms=1, prefix="in/"), _settings(), is_new=True)
    assert first.owes_inventory
    assert inventories_to_read(MANIFESTS, first, "uploads") == MANIFESTS
    assert awaited_inventories(_settings(), None) == awaited_inventories(_settings(), cache) == (URL,)
    _remember(cache, first)
    assert awaited_inventories(_settings(), cache) == (URL,)
    assert with_inventories(first, _settings(), is_new=False) == first

    over = replace(first, is_inventory_over=True)
    _remember(cache, over)
    assert not over.owes_inventory
    assert inventories_to_read(MANIFESTS, over, "uploads") == ()
    assert awaited_inventories(_settings(), cache) == ()


def test_it_may_be_corrected_or_removed_while_it_is_not_over() -> None:
    """Afterwards another one is not taken, which is said; the same one is nothing to speak of."""
    first = with_inventories(FirstStart(at_ms=1), _settings(), is_new=True)
    assert with_inventories(first, _settings(OTHER), is_new=False).inventories == (OTHER,)
    assert not with_inventories(first, _settings(None), is_new=False).owes_inventory

    over = replace(first, is_inventory_over=True)
    with structlog.testing.capture_logs() as logged:
        assert with_inventories(over, _settings(), is_new=False) == over
        assert with_inventories(over, _settings(None), is_new=False) == over
        assert logged == []
        assert with_inventories(over, _settings(OTHER), is_new=False) == over
    assert [entry["event"] for entry in logged] == ["inventory_not_taken"]


def test_a_ledger_of_before_reads_none() -> None:
    """Its first start was before; the option comes too late."""
    with structlog.testing.capture_logs() as logged:
        assert not with_inventories(FirstStart(at_ms=1), _settings(), is_new=False).owes_inventory
    assert [entry["event"] for entry in logged] == ["inventory_not_taken"]


def test_only_a_first_start_ends_for_one_that_cannot_be_read(cache: LedgerCache) -> None:
    """It has begun nothing; a later one lists instead, whatever became of the inventory."""
    with pytest.raises(InventoryRefused):
        require_inventories(PROBLEM, _settings(), cache)
    require_inventories(MANIFESTS, _settings(), cache)
    first = with_inventories(FirstStart(at_ms=1, prefix="in/"), _settings(), is_new=True)
    _remember(cache, first)
    require_inventories(PROBLEM, _settings(), cache)
    with structlog.testing.capture_logs() as logged:
        assert inventories_to_read(PROBLEM, first, "uploads") == ()
    assert [entry["event"] for entry in logged] == ["inventory_not_read"]
    with pytest.raises(InventoryRefused):
        require_inventories(PROBLEM, _settings(prefix="out/"), cache)


def test_another_prefix_has_a_first_start_of_its_own(cache: LedgerCache) -> None:
    """It reads the inventory, and the one of before has forgotten its own."""
    first = with_inventories(FirstStart(at_ms=1, prefix="in/"), _settings(), is_new=True)
    _remember(cache, replace(first, is_inventory_over=True))
    assert awaited_inventories(_settings(prefix="out/"), cache) == (URL,)
    again = with_inventories(
        begun_again(FirstStart(at_ms=2), first, "out/"), _settings(prefix="out/"), is_new=True
    )
    assert again.owes_inventory
    assert [each.inventories for each in again.all] == [(URL,), ()]


def test_each_bucket_reads_its_own(cache: LedgerCache) -> None:
    """One whose first start is over does not; one that has come later has its own first start."""
    both = load_with({"aws.s3.bucket.name": "uploads,more", "initial.inventory": URL})
    manifests = (*MANIFESTS, inventory("more", []).manifest("more"))
    first = with_inventories(FirstStart(at_ms=1), both, is_new=True)
    assert [each.source for each in inventories_to_read(manifests, first, "more")] == ["more"]
    assert inventories_to_read(manifests, first, "third") == ()

    _remember(cache, replace(first, is_inventory_over=True))
    assert awaited_inventories(_settings(prefix=""), cache) == ()
    assert awaited_inventories(both, cache) == (URL,)
    with pytest.raises(InventoryRefused):
        require_inventories(PROBLEM, both, cache)
