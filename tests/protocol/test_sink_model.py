"""Every world that the sink's small scenarios come to keeps the promise; without a protection some do not."""

from dataclasses import replace
from random import Random

import pytest

from tests.protocol.sink_model import scenarios as small
from tests.protocol.sink_model.explore import follow, search, walk, way_of
from tests.protocol.sink_model.protections import without
from tests.protocol.sink_model.world import Budget, Scenario

# More worlds than `make test` has time for.
LARGE = {"options", "options of three", "made again, lost"}

# Protection -> where its absence shows. A pair: each covers for the other, so both have to be off.
NEEDED: dict[str, Scenario] = {
    "offset_holds_for_open_objects": small.REPLAY,
    "skip_by_group": small.REPLAY,
    "group_in_offset_order": small.SLOW_UPLOADS,
    "clock_groups_together": small.CLOCK,
    "earlier_options": small.OPTIONS,
    "dead_letters_listed": small.DEAD_LETTER,
    "listed_is_passed_over": small.CHANGED,
    "replay_changed_stops": small.CHANGED_OBJECT,
    "complete_after_commit": small.REPLAY,
    "pending_in_transaction": small.LOST_SLOT,
    "group_commit": small.TAKEOVER,
    "topics_described_before_begin": small.MADE_AGAIN_OPEN,
    "fence": small.LOST_SLOT,
    "moved_after_release": small.MOVED,
    "leader_completes": small.LOST_SLOT,
    "completed_before_grant": small.RECURRING_ELSEWHERE,
    "upload_after_predecessor": small.RECURRING,
    "name_in_offset_order upload_after_predecessor": small.RECURRING_ELSEWHERE,
    "entries_until_passed": small.REPLAY,
    "entry_has_all_uploads": small.BESIDE,
    "main_upload_last": small.BESIDE,
    "if_none_match": small.MADE_AGAIN,
    "head_compares_id": small.TAKEOVER,
    "young_was_completed": small.TAKEN_AWAY,
    "old_may_be_expired": small.LOST_UPLOAD,
    "made_again_by_decision": small.TAKEN_OR_LOST,
    "entries_carry_topic_id": small.MADE_AGAIN,
    "ledger_wins": small.EXPIRED,
    "start_in_ledger": small.LATEST,
}

# Where a search for it takes a third of a second or more: a way that breaks the promise, for `follow`.
WAYS: dict[str, str] = {
    "earlier_options": "000000001102222322222222",
    "topics_described_before_begin": "0000000200001110110001000000",
    "fence": "0000000001000222000100000000",
}

# Alone, these can be missed: another covers for them, or they keep something else than the promise.
COVERED: dict[str, Scenario] = {
    # Of one name at most one object is pending while uploads are started after the completion before.
    "name_in_offset_order": small.RECURRING_ELSEWHERE,
    "metadata_before_begin": small.STANDBY,
}


@pytest.mark.parametrize("name", sorted(set(small.ALL_SMALL) - LARGE))
def test_every_world_keeps_the_promise(name: str) -> None:
    """Each record archived or lettered once at most, and all of them when nothing is left to do."""
    found = search(small.ALL_SMALL[name], limit=20_000)
    assert found.wrong is None, f"\n{found}"
    assert found.complete
    assert found.quiet


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(LARGE))
def test_every_world_of_the_larger_ones_keeps_the_promise(name: str) -> None:
    """The same where it takes minutes."""
    found = search(small.ALL_SMALL[name], limit=1_000_000)
    assert found.wrong is None, f"\n{found}"
    assert found.complete
    assert found.quiet


@pytest.mark.parametrize("names", NEEDED)
def test_without_a_protection_the_promise_is_broken(names: str) -> None:
    """Some order of the same steps archives a record twice or loses it: the protection is needed."""
    broken = replace(NEEDED[names], on=without(*names.split()))
    if names in WAYS and follow(broken, WAYS[names]) is not None:
        return
    found = search(broken, limit=100_000)
    assert found.wrong is not None, f"{found.worlds} worlds without {names} keep the promise"
    assert names not in WAYS, f"its way leads elsewhere now; write {way_of(broken, found.trace)!r}"


@pytest.mark.parametrize("name", COVERED)
def test_what_another_protection_covers(name: str) -> None:
    """Known of these, so that nobody takes them for the reason."""
    found = search(replace(COVERED[name], on=without(name)), limit=20_000)
    assert found.wrong is None, f"\n{found}"
    assert found.complete


@pytest.mark.parametrize("asked", [True, False])
def test_a_standby_that_arrives_costs_nothing_that_is_open(*, asked: bool) -> None:
    """A slot that asks for the group's metadata before each begin is refused by no standby's arrival."""
    names = () if asked else ("metadata_before_begin",)
    found = search(
        replace(small.STANDBY, on=without(*names)), limit=20_000, watch=lambda words: "refused" in words
    )
    assert (found.wrong is None) == asked


def test_every_protection_is_accounted_for() -> None:
    """No switch without a test that turns it."""
    switches = set(type(without()).__dataclass_fields__)
    assert {name for names in (*NEEDED, *COVERED) for name in names.split()} == switches


@pytest.mark.parametrize("seed", range(60))
def test_random_walks_keep_the_promise(seed: int) -> None:
    """Four leaders, two slots, options that change, and every fault; faults first, then calm."""
    found = walk(small.EVERYTHING, Random(seed), faults=40 + 3 * seed)
    assert found.wrong is None, f"seed {seed}\n{found}"


def test_a_calm_world_is_quickly_done() -> None:
    """Where nothing goes wrong it comes to its end: the walks do not pass for want of doing anything."""
    found = walk(replace(small.EVERYTHING, options="1", budget=Budget()), Random(1), faults=0)
    assert found.wrong is None
    assert sum("commits up to" in words for words in found.trace) >= 1
    assert sum(": complete" in words for words in found.trace) >= 2


@pytest.mark.parametrize(
    "name",
    ["offset_holds_for_open_objects", "dead_letters_listed", "leader_completes", "moved_after_release"],
)
def test_walks_find_what_is_missing(name: str) -> None:
    """The walks are no blind ones."""
    broken = replace(small.EVERYTHING, on=without(name))
    assert any(walk(broken, Random(seed), faults=150).wrong for seed in range(60))
