"""Every world that the small scenarios come to keeps the promise; without a protection some do not."""

from dataclasses import replace

import pytest

from tests.protocol.model import scenarios as small
from tests.protocol.model.explore import follow, search, way_of
from tests.protocol.model.protections import without
from tests.protocol.model.world import Budget, Scenario

# More worlds than `make test` has time for; it walks through these at random instead.
LARGE = {"leads again", "returns", "old plans", "unarrived", "together", "slices", "cache of two"}

# Protection -> where its absence shows. A pair: each covers for the other, so both have to be off.
NEEDED: dict[str, Scenario] = {
    "offset_commit": small.UNANSWERED,
    "metadata_under_assignment": small.GENERATIONS,
    "metadata_names_a_member": small.GENERATIONS,
    "void_before_fence": small.LATE_TASK,
    "fence": small.LATE_TASK,
    "fence_all_slots_ever_used": small.FEWER_SLOTS,
    "slot_count_before_first_task": small.FEWER_SLOTS,
    "slot_count_read_uncommitted fence_again_on_larger_count": small.FEWER_SLOTS,
    "end_is_uncommitted": small.NEIGHBOURS,
    "end_after_fence": small.NEIGHBOURS,
    "grant_once": small.TWICE,
    "initialise_before_grant": small.LATE_TASK,
    "never_initialise_again": small.LATE_TASK,
    "no_spark_retries grant_once": small.RETRIED,
    "driver_writes_in_transactions": small.REPLAY_TAKEOVER,
    "driver_spares_live_plans": small.REPLAY,
    "replay_writes_new": small.REPLAY,
    "cuts_first": small.SLICES,
    "done_with_tombstones": small.SLICES,
    "unanswered_commit_is_unknown": small.UNANSWERED,
    "unanswered_abort_is_unknown": small.UNANSWERED,
    "leads_again_with_new_sockets": small.LEADS_AGAIN,
    "ledger_is_the_truth": small.UNANSWERED,
    "settle_after_commit": small.UNANSWERED,
    "newest_wins": small.READING_ON,
    "cache_rows_with_position": small.CACHE,
    "cache_holds_only_reads": small.CACHE_OF_TWO,
    "rotate_before_fence": small.SOCKETLESS,
    "task_reads_the_ledger": small.SOCKETLESS_TWICE,
    "given_back_is_not_clean": small.SOCKETLESS_TWICE,
}

# Where a search for it takes a third of a second or more: a way that breaks the promise, for `follow`.
WAYS: dict[str, str] = {
    "metadata_under_assignment": "0000000001222222111110430000",
    "metadata_names_a_member": "000000000122220002020211111",
    "end_is_uncommitted": "000000000000002111113222222222",
    "end_after_fence": "000000000000011211110022211111",
    "driver_spares_live_plans": "00001000000000000000000002011000000",
    "cuts_first": "0000000000000002222222211111",
    "done_with_tombstones": "00000000000000000000000000000000000",
    "leads_again_with_new_sockets": "000000000000001222222311111",
    "newest_wins": "0000000000001002210000000100",
    "cache_rows_with_position": "0000100000000010000122222200000",
    "cache_holds_only_reads": "00000000000000011111112333333411111",
}

# Alone, these can be missed: another covers for them, or they keep something else than the promise.
COVERED: dict[str, Scenario] = {
    "offset_commit_first": small.TAKEOVER,
    "slot_count_read_uncommitted": small.FEWER_SLOTS,
    "fence_again_on_larger_count": small.FEWER_SLOTS,
    "no_spark_retries": small.RETRIED,
    "grant_once": small.RETRIED,
    "only_last_holder": small.KEPT_PRODUCERS,
}


@pytest.mark.parametrize("name", sorted(set(small.ALL_SMALL) - LARGE))
def test_every_world_keeps_the_promise(name: str) -> None:
    """Each row visible once at most and never lost, and all of them once when nothing is left to do."""
    found = search(small.ALL_SMALL[name], limit=100_000)
    assert found.wrong is None, f"\n{found}"
    assert found.complete
    assert found.quiet


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(LARGE))
def test_every_world_of_the_larger_ones_keeps_the_promise(name: str) -> None:
    """The same where it takes minutes."""
    found = search(small.ALL_SMALL[name], limit=1_000_000)
    assert found.wrong is None, f"\n{found}"
    assert found.complete
    assert found.quiet


@pytest.mark.parametrize("names", NEEDED)
def test_without_a_protection_the_promise_is_broken(names: str) -> None:
    """Some order of the same steps shows a row twice or loses it: the protection is needed."""
    broken = replace(NEEDED[names], on=without(*names.split()))
    if names in WAYS and follow(broken, WAYS[names]) is not None:
        return
    found = search(broken, limit=100_000)
    assert found.wrong is not None, f"{found.worlds} worlds without {names} keep the promise"
    assert names not in WAYS, f"its way leads elsewhere now; write {way_of(broken, found.trace)!r}"


@pytest.mark.parametrize("name", COVERED)
def test_what_another_protection_covers(name: str) -> None:
    """Known of these, so that nobody takes them for the reason: alone they are not what keeps the promise."""
    found = search(replace(COVERED[name], on=without(name)), limit=100_000)
    assert found.wrong is None, f"\n{found}"
    assert found.complete


@pytest.mark.parametrize("name", ["offset_commit", "fence"])
def test_a_member_that_returns_needs_the_same_protections(name: str) -> None:
    """The generation stays when a static member comes back: its new id and the fence keep zombies out."""
    found = search(replace(small.RESTARTED_UNANSWERED, on=without(name)), limit=100_000)
    assert found.wrong is not None, f"{found.worlds} worlds without {name} keep the promise"


class TestWhatTheCoveredOnesAreFor:
    """They keep something else than the promise."""

    @pytest.mark.parametrize("first", [True, False])
    def test_offset_commit_first_keeps_stale_rows_out_of_the_log(self, *, first: bool) -> None:
        """A stale task is refused before it has written anything that readers would wait for."""
        names = () if first else ("offset_commit_first",)
        found = search(
            replace(small.TAKEOVER, on=without(*names)),
            limit=100_000,
            watch=lambda words: "refused after 1 rows" in words,
        )
        assert (found.wrong is None) == first

    @pytest.mark.parametrize("only_last", [True, False])
    def test_only_the_last_holder_finds_its_producer_alive(self, *, only_last: bool) -> None:
        """Where nothing goes wrong, no task is fenced: that would cost a batch, a fence and a read."""
        names = () if only_last else ("only_last_holder",)
        calm = replace(small.KEPT_PRODUCERS, budget=Budget(), on=without(*names))
        found = search(calm, limit=100_000, watch=lambda words: "fenced" in words)
        assert (found.wrong is None) == only_last


def test_every_protection_is_accounted_for() -> None:
    """No switch without a test that turns it."""
    switches = set(type(without()).__dataclass_fields__)
    assert {name for names in (*NEEDED, *COVERED) for name in names.split()} == switches


def test_a_late_fence_reaches_the_leader() -> None:
    """A driver deposed in the middle of its takeover still fences, and the leader's own producer with it.

    No row suffers, but the leader must not take that for the loss of its lead: it initialises anew and reads.
    """
    found = search(
        small.TAKEOVER,
        limit=100_000,
        watch=lambda words: words.startswith("driver 1: finds itself fenced"),
    )
    assert found.wrong is not None
    assert any(step.startswith("driver 0: fences its own id") for step in found.trace[-12:])
