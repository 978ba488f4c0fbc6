"""`post.action`: an object is owed it once every row that came from it is committed, wherever it went."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, RowPlace, SideObject
from headrace.model.positions import BytePosition, JoinedPosition
from headrace.model.slot_protocol import BatchOutcome, Finished
from headrace.options.choices import Ordering
from ingest.source.catalogue import ObjectFilter
from ingest.source.catalogue.object_commands import AlterOffsets, Mark, Offset, Replay, Selection
from ingest.source.catalogue.tombstones import FolderPlaces, TombstonePlaces
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import NOW, Desk, event, listed, object_id, page, route
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

_FOLDER: Final = "topics/t/"
_OLD: Final = NOW - 1_000_000
_WAIT_MS: Final = 1000


def _value(start: int, side: str = "") -> str:
    return f"{_FOLDER}partition=0/t+0+{start:010}{side}.json"


def _gone(start: int, side: str = ".keys") -> str:
    return f"{_FOLDER}tombstone/t+0+{start:010}{side}.json"


class _Desk(Desk):
    """A restore with `post.action=delete`; what a task writes at an object's end as the tasks do."""

    def __init__(self, ledger: FakeLedger | None = None, mode: str = "proven") -> None:
        loaded = load_with(
            {
                "topic": None,
                "file.name.template": None,
                "input.layout": "confluent",
                "restore.tombstones": mode,
                "restore.sidecars.wait.ms": str(_WAIT_MS),
            }
        )
        super().__init__(
            ledger=ledger,
            intake=object_filter_of(loaded),
            joining=loaded.joining,
            limits=BatchLimits(slots=2, max_objects=1, ordering=Ordering.PARTITION),
            post_action="delete",
        )

    def show(self, *keys: str, listing_id: int = 1) -> None:
        """A listing of an old archive."""
        self.observe(
            page(*(listed(key, last_modified_ms=_OLD) for key in sorted(keys)), listing_id=listing_id)
        )
        self.tick()

    def answer(self, *found: TombstonePlaces) -> None:
        """The search of the folder is over."""
        self.catalogue.on_tombstones(FolderPlaces(folder=_FOLDER, tombstones=found))
        self.tick()

    def read(self, **end: Any) -> str:
        """The object that a slot gets now; it comes to this end, by default without a bad record."""
        plan = self.plan()
        (work,) = self.works[plan]
        given: dict[str, Any] = {"state": State.DONE, "bad": 0, **end}
        action = None if work.is_kept or given["state"] is not State.DONE or given["bad"] else "delete"
        entry = LedgerEntry(
            records=3,
            sides=work.sides,
            tombstones=work.tombstones,
            size=10,
            is_kept=work.is_kept,
            action=action,
            **given,
        )
        self.commit(plan, work.object.id, entry)
        self.finish(plan)
        self.tick()
        return work.object.id.key

    def plan_keys(self) -> list[str]:
        """What a slot gets now."""
        return self.keys(self.plan())

    def acted(self) -> list[str]:
        """The keys that `post.action` was asked for since the last look, in their order."""
        found, self.actions = [key for owed in self.actions for key, _, _ in owed.contents], []
        return found


def _places(start: int, inserts: Iterable[int], *values: int, own_from: int | None = None) -> TombstonePlaces:
    between = {_value(each): (RowPlace(1, row, 1),) for row, each in enumerate(inserts)}
    rows = max(1, len(between) + (0 if own_from is None else 1))
    return TombstonePlaces(
        object=listed(_gone(start), last_modified_ms=_OLD),
        headers=None,
        rows=rows,
        own_from=rows if own_from is None else own_from,
        inserts=between,
        values=tuple(listed(_value(each), last_modified_ms=_OLD) for each in values),
    )


def _two(*starts: int) -> list[str]:
    return [_value(start, side) for start in starts for side in ("", ".keys")]


def test_a_tombstone_object_goes_with_the_last_value_object_that_it_is_merged_into() -> None:
    """With the first one it would be missing for the others: neither in Kafka nor in the bucket."""
    desk = _Desk()
    desk.show(*_two(0, 4), _gone(1))
    desk.answer(_places(1, [0, 4], 0, 4))

    assert desk.read() == _value(0)
    assert desk.acted() == [_value(0, ".keys"), _value(0)]
    assert desk.read() == _value(4)
    assert desk.acted() == [_value(4, ".keys"), _value(4), _gone(1)]
    assert desk.catalogue.is_idle


def test_a_tombstone_object_with_rows_of_its_own_goes_after_these() -> None:
    """They are read behind all values."""
    desk = _Desk()
    desk.show(*_two(0, 4), _gone(1))
    desk.answer(_places(1, [0], 0, 4, own_from=1))
    assert {desk.read(), desk.read()} == {_value(0), _value(4)}
    assert _gone(1) not in desk.acted()

    assert desk.read() == _gone(1)
    assert desk.acted() == [_gone(1)]


@pytest.mark.parametrize("end", [{"state": State.QUARANTINED, "reason": "corrupt"}, {"bad": 1}])
@pytest.mark.parametrize("own_from", [None, 1])
def test_a_tombstone_object_stays_while_a_row_of_it_is_in_doubt(
    end: dict[str, Any], own_from: int | None
) -> None:
    """Rows that stand in a quarantined object, or in one with bad records, may not be in Kafka."""
    desk = _Desk()
    desk.show(*_two(0, 4), _gone(1))
    desk.answer(_places(1, [0, 4] if own_from is None else [0], 0, 4, own_from=own_from))
    assert desk.read(**end) == _value(0)
    assert desk.read() == _value(4)
    if own_from is not None:
        assert desk.read() == _gone(1)

    assert desk.acted() == [_value(4, ".keys"), _value(4)]
    assert desk.catalogue.is_idle


def test_a_restart_between_the_ends_takes_no_tombstones_along() -> None:
    """The listing names what is still owed: of the value object only its own."""
    ledger = FakeLedger()
    desk = _Desk(ledger)
    desk.show(*_two(0, 4), _gone(1))
    desk.answer(_places(1, [0, 4], 0, 4))
    desk.read()

    again = _Desk(ledger)
    again.show(*_two(0, 4), _gone(1))
    assert again.acted() == [_value(0, ".keys"), _value(0)]


@pytest.mark.parametrize(
    ("key", "owed", "is_named"),
    [
        ("in/a", LedgerEntry(state=State.DONE, action="delete"), True),
        ("in/c", LedgerEntry(state=State.SKIPPED, reason="joined", action="delete"), True),
        ("in/d", LedgerEntry(state=State.DONE, action="delete"), False),
        ("im/a", LedgerEntry(state=State.DONE, action="delete"), False),
        ("in/a", LedgerEntry(state=State.DONE), False),
        ("in/a", LedgerEntry(state=State.DONE, action="tag:a=b"), False),
        ("in/a", LedgerEntry(state=State.DONE, action="delete", sides=(SideObject("k", "1", 1),)), False),
    ],
    ids=["owed", "merged", "listed", "outside", "done", "other-option", "keys"],
)
def test_a_restart_names_what_is_owed_below_the_start_key(
    key: str, owed: LedgerEntry, *, is_named: bool
) -> None:
    """No listing shows it; it does not tell of keys whether they are those of an overwritten object now."""
    ledger = FakeLedger()
    ledger.commit(object_id(key), owed)
    desk = _below_start_key(ledger)
    desk.tick()
    assert [each.id for each in desk.actions] == [object_id(key)] * is_named
    assert desk.catalogue.is_idle
    desk.do(desk.catalogue.on_acted([object_id(key)] * is_named))
    desk.catalogue.look_again()
    desk.tick()
    assert len(desk.actions) == is_named, "it is done"


def test_a_restart_names_all_that_is_owed_below_the_start_key_in_turns_and_once() -> None:
    """Many contents of one key, and more keys than one turn may read; those after the key are listed."""
    ledger = FakeLedger()
    owed = LedgerEntry(state=State.DONE, action="delete")
    ids = [object_id("in/a", f"{each:05}") for each in range(4500)]
    ids += [object_id(f"in/b{each:04}") for each in range(2500)]
    ledger.view.fill([(each, owed) for each in sorted([*ids, object_id("in/d")])])
    desk, turns = _below_start_key(ledger), 0
    while not desk.catalogue.is_idle:
        assert len(desk.tick().actions) <= 2000
        turns += 1
    assert [each.id for each in desk.actions] == sorted(ids)
    assert turns == 4
    desk.catalogue.look_again()
    assert not desk.catalogue.is_idle
    assert len(desk.tick().actions) == 2000, "what was left out is named again"


def test_nothing_is_looked_for_below_the_start_key_without_a_post_action() -> None:
    """Nothing is owed."""
    ledger = FakeLedger()
    ledger.commit(object_id("in/a"), LedgerEntry(state=State.DONE, action="delete"))
    desk = _below_start_key(ledger, post_action=None)
    assert desk.catalogue.is_idle
    desk.catalogue.look_again()
    assert desk.catalogue.is_idle


def test_what_is_owed_below_the_start_key_waits_for_commands() -> None:
    """A replay that stands in the ledger withdraws what is owed; four threads would be quicker."""
    ledger = FakeLedger()
    ledger.commit(object_id("in/a"), LedgerEntry(state=State.DONE, action="delete"))
    desk = _below_start_key(ledger)
    assert not desk.do(desk.planner.tick(desk.now, takes_stock=False)).actions
    assert not desk.catalogue.is_idle
    assert [owed.id.key for owed in desk.tick().actions] == ["in/a"]
    assert desk.catalogue.is_idle


def _below_start_key(ledger: FakeLedger, post_action: str | None = "delete") -> Desk:
    bucket = object_id("").bucket
    intake = ObjectFilter(route=route, prefix="in/")
    return Desk(ledger=ledger, intake=intake, post_action=post_action, skip_through={bucket: "in/c"})


def test_a_restart_names_a_merged_tombstone_object_that_is_owed_its_action() -> None:
    """Its end says so: it is `skipped`, and yet all of its rows are in Kafka."""
    ledger = FakeLedger()
    desk = _Desk(ledger)
    desk.show(*_two(0), _gone(1))
    desk.answer(_places(1, [0], 0))
    desk.read()
    assert desk.acted() == [_value(0, ".keys"), _value(0), _gone(1)]

    again = _Desk(ledger)
    again.show(_gone(1))
    assert again.acted() == [_gone(1)]
    again.do(again.catalogue.on_acted([object_id(_gone(1))]))
    again.show(_gone(1), listing_id=2)
    assert again.acted() == []


def test_values_that_were_restored_without_their_keys_stay() -> None:
    """The keys may come later: the replay that the log advises needs the object."""
    desk = _Desk(mode="ignore")
    desk.show(*_two(10))
    assert desk.read() == _value(10)
    assert desk.acted() == [_value(10, ".keys"), _value(10)]
    desk.announce("m", event(_value(0), event_time_ms=desk.now_ms))
    desk.tick()
    desk.tick(_WAIT_MS)
    assert desk.read() == _value(0)
    assert desk.acted() == []
    desk.show(*_two(0))
    assert desk.acted() == []

    replay = Replay(selection=Selection(key=_value(0)), is_from_start=True)
    desk.do(desk.catalogue.apply_command(replay, [listed(_value(0))], desk.now))
    desk.tick()
    assert desk.read() == _value(0)
    assert desk.acted() == [_value(0, ".keys"), _value(0)]


def test_a_restart_remembers_that_keys_were_missing() -> None:
    """The object was begun without them."""
    ledger = FakeLedger()
    desk = _Desk(ledger, mode="ignore")
    desk.show(*_two(10))
    assert desk.read() == _value(10)
    desk.announce("m", event(_value(0), event_time_ms=desk.now_ms))
    desk.tick()
    desk.tick(_WAIT_MS)
    begun = JoinedPosition(BytePosition(4), 1)
    assert desk.read(state=State.PARTIAL, position=begun) == _value(0)

    again = _Desk(ledger, mode="ignore")
    again.show(_value(0))
    assert again.read() == _value(0)
    assert again.acted() == []


def test_keys_that_come_before_the_action_is_done_keep_their_object() -> None:
    """Of a topic that had no keys so far nothing is waited for; what comes late is restored by a replay."""
    desk = _Desk(mode="ignore")
    desk.show(_value(0))
    plan = desk.plan()
    (work,) = desk.works[plan]
    desk.announce("m", event(_value(0, ".keys"), event_time_ms=desk.now_ms))
    desk.tick()
    desk.commit(plan, work.object.id, LedgerEntry(state=State.DONE, size=10, action="delete"))
    desk.finish(plan)
    desk.tick()
    desk.show(*_two(0))

    assert desk.acted() == []


def test_versions_of_one_key_share_its_side_objects() -> None:
    """The older one leaves them to the newer one, which waits for its turn."""
    desk = _Desk(mode="ignore")
    desk.show(*_two(0))
    desk.observe(page(listed(_value(0), "2", last_modified_ms=NOW), listed(_value(0, ".keys")), listing_id=2))
    desk.tick()
    assert desk.read() == _value(0)
    assert desk.acted() == [_value(0)]
    assert desk.read() == _value(0)
    assert desk.acted() == [_value(0, ".keys"), _value(0)]


def test_set_offsets_owe_no_action() -> None:
    """Set to be quarantined or done from outside, an object is not deleted for an end before that."""
    desk = _Desk(mode="ignore")
    desk.show(*_two(0))
    desk.read()
    owed = desk.entry(_value(0))
    assert owed is not None
    assert owed.action == "delete"
    (kept,) = (owed_action.id for owed_action in desk.actions)
    desk.acted()

    offset = replace(Offset.of(owed), state=State.QUARANTINED, reason="looked_at")
    altering = AlterOffsets(offsets={kept: offset})
    desk.do(desk.catalogue.apply_command(altering, [listed(_value(0))], desk.now))

    changed = desk.entry(_value(0))
    assert changed is not None
    assert changed.action is None
    assert desk.withdrawn == [kept]
    desk.show(*_two(0), listing_id=2)
    assert desk.acted() == []


def test_a_replay_withdraws_an_action_that_was_asked_for() -> None:
    """While it fails it is tried again: it must not reach the object that is read once more."""
    desk = _Desk(mode="ignore")
    desk.show(*_two(0))
    desk.read()
    replay = Replay(selection=Selection(key=_value(0)), is_from_start=True)
    desk.do(desk.catalogue.apply_command(replay, [listed(_value(0))], desk.now))

    assert desk.withdrawn == [object_id(_value(0))]


def test_what_is_replayed_is_owed_nothing_while_that_is_written() -> None:
    """A page of a listing comes in between, and the ledger has the end of before yet: it would be taken."""
    desk = _Desk(mode="ignore")
    desk.show(*_two(0))
    desk.read()
    replay = Replay(selection=Selection(key=_value(0)), is_from_start=True)
    effects = desk.catalogue.apply_command(replay, [listed(_value(0))], desk.now)
    desk.acted()

    desk.show(*_two(0), listing_id=2)
    desk.do(effects)

    assert desk.acted() == []
    assert desk.read() == _value(0)
    assert desk.acted() == [_value(0, ".keys"), _value(0)]


def test_a_replay_that_waits_for_the_end_of_a_batch_keeps_its_object() -> None:
    """It comes while the object is read: what its end owes would be done before the batch has ended."""
    desk = _Desk(mode="ignore")
    desk.show(*_two(0))
    plan = desk.plan()
    (work,) = desk.works[plan]
    replay = Replay(selection=Selection(key=_value(0)), is_from_start=True)
    desk.do(desk.catalogue.apply_command(replay, [listed(_value(0))], desk.now))
    done = LedgerEntry(state=State.DONE, sides=work.sides, size=10, action="delete")
    desk.commit(plan, work.object.id, done)
    desk.finish(plan)

    assert desk.acted() == []
    assert desk.read() == _value(0)
    assert desk.acted() == [_value(0, ".keys"), _value(0)]


def test_a_replay_that_waits_for_the_record_of_an_end_keeps_its_object() -> None:
    """Both follow from that record, and what is withdrawn is so before anything is asked for."""
    desk = _Desk()
    desk.show(*_two(0), _gone(1))
    desk.answer(_places(1, [0], 0))
    plan = desk.plan()
    (work,) = desk.works[plan]
    done = LedgerEntry(
        state=State.DONE, sides=work.sides, tombstones=work.tombstones, size=10, action="delete"
    )
    desk.commit(plan, work.object.id, done)
    finished = Finished(batch=plan, outcome=BatchOutcome.CLEAN)
    ended = desk.planner.on_finished(plan, finished, desk.now).joined(desk.planner.tick(desk.now))
    assert object_id(_gone(1)) in {write.key for write in ended.writes}
    desk.acted()
    replay = Replay(selection=Selection(key=_gone(1)), is_from_start=True)
    desk.do(desk.catalogue.apply_command(replay, [listed(_gone(1))], desk.now))
    desk.do(ended)

    assert desk.acted() == []


def test_a_command_that_waited_and_changes_nothing_leaves_what_is_owed() -> None:
    """No listing may come for hours."""
    desk = _Desk(mode="ignore")
    desk.show(*_two(0))
    plan = desk.plan()
    (work,) = desk.works[plan]
    mark = Mark(selection=Selection(key=_value(0)))
    desk.do(desk.catalogue.apply_command(mark, [listed(_value(0))], desk.now))
    done = LedgerEntry(state=State.DONE, sides=work.sides, size=10, action="delete")
    desk.commit(plan, work.object.id, done)
    desk.finish(plan)

    assert desk.acted() == [_value(0, ".keys"), _value(0)]


def test_a_value_object_that_ends_and_goes_during_a_search_is_searched_for_again() -> None:
    """The listing of the search did not show it any more, and the ledger not yet its end."""
    desk = _Desk()
    desk.show(*_two(0))
    desk.answer()
    plan = desk.plan()
    (work,) = desk.works[plan]
    desk.show(*_two(0), _gone(1), listing_id=2)
    desk.commit(plan, work.object.id, LedgerEntry(state=State.DONE, sides=work.sides, size=10))
    desk.finish(plan)

    desk.answer(_places(1, [], own_from=0))

    assert desk.plan_keys() == []
    desk.answer(_places(1, [0], 0))
    desk.tick()
    entry = desk.entry(_gone(1))
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "tombstone_order_unknown")


@pytest.mark.parametrize(("mode", "is_kept"), [("proven", True), ("ignore", False)])
def test_what_proves_the_place_of_a_late_tombstone_is_not_forgotten(mode: str, *, is_kept: bool) -> None:
    """After `ledger.retention.ms` the tombstone seemed to stand behind all values, and deleted a live key."""
    keys = SideObject(_value(0, ".keys"), "1", 10)
    position = JoinedPosition(BytePosition(9), 3)
    done = LedgerEntry(state=State.DONE, position=position, records=3, sides=(keys,), size=10)
    ledger = FakeLedger()
    ledger.commit(object_id(_value(0)), replace(done, updated_ms=_OLD))
    # Most of the ledger is still there: what looks like a wrong listing removes nothing.
    others = [_value(start) for start in range(10, 20)]
    for key in others:
        ledger.commit(object_id(key), replace(done, sides=()))
    desk = _Desk(ledger, mode=mode)
    for number in range(2, 5):
        desk.now_ms += 40 * 86_400_000
        desk.show(*others, listing_id=number)

    assert (desk.entry(_value(0)) is not None) is is_kept


@pytest.mark.parametrize(
    ("prefix", "read", "acted"),
    [
        pytest.param("elsewhere/", [], [], id="another"),
        pytest.param("in/2026/", ["in/2026/half"], ["in/2026/owed", "in/2026/half"], id="narrower"),
        pytest.param(
            "in/",
            ["in/2026/half", "in/half"],
            ["in/2026/owed", "in/owed", "in/2026/half", "in/half"],
            id="back",
        ),
    ],
)
def test_a_move_meets_only_what_is_below_the_prefix_of_now(
    prefix: str, read: list[str], acted: list[str]
) -> None:
    """What is begun or owed below another one waits for that prefix: its name below a target is not known."""
    move = "move:done/"
    loaded = load_with({"aws.s3.prefix": prefix, "post.action": move, "file.name.template": ".*"})
    ledger = FakeLedger()
    for folder in ("in/", "in/2026/"):
        half = LedgerEntry(state=State.PARTIAL, position=BytePosition(1), size=10)
        ledger.commit(object_id(f"{folder}half"), half)
        ledger.commit(object_id(f"{folder}owed"), LedgerEntry(state=State.DONE, size=10, action=move))
        ledger.commit(object_id(f"done/{folder}read"), LedgerEntry(state=State.DONE, size=10))
    desk = Desk(ledger=ledger, intake=object_filter_of(loaded), post_action=move)
    keys = sorted(key.key for key in ledger.truth if isinstance(key, ObjectId))
    desk.observe(page(*(listed(key) for key in keys if key.startswith(prefix))))
    plan = desk.plan()
    assert desk.keys(plan) == read
    for key in read:
        desk.commit(plan, object_id(key), LedgerEntry(state=State.DONE, size=10, action=move))
    desk.finish(plan)

    assert [key for owed in desk.actions for key, _, _ in owed.contents] == acted
    assert all(key.startswith(loaded.s3.prefix) for key in acted)
