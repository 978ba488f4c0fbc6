"""Objects of keys and headers: waited for, read with their value object only, and ended with it."""

from itertools import permutations
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import SideObject
from headrace.model.positions import BytePosition, JoinedPosition
from headrace.options.choices import Ordering
from ingest.source.catalogue.object_commands import Replay, Selection
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import NOW, Desk, event, listed, object_id, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger
from tests.support.examples import examples

_WAIT_MS: Final = 5000
_KINDS: Final = ("", ".keys", ".headers")


def _key(start: int, kind: str = "", *, topic: str = "t", extension: str = "json") -> str:
    return f"topics/{topic}/partition=0/{topic}+0+{start:010}{kind}.{extension}"


def _three(start: int, **fields: str) -> list[str]:
    return [_key(start, kind, **fields) for kind in _KINDS]


def _desk(
    ledger: FakeLedger | None = None,
    mode: str = "auto",
    wait_ms: int = _WAIT_MS,
    tombstones: str = "ignore",
    layout: str = "confluent",
    **options: Any,
) -> Desk:
    """A driver of a restore, with what the ledger says."""
    loaded = load_with(
        {
            "topic": None,
            "file.name.template": None,
            "input.layout": layout,
            "restore.sidecars": mode,
            "restore.sidecars.wait.ms": str(wait_ms),
            "restore.tombstones": tombstones,
        }
    )
    return Desk(ledger=ledger, intake=object_filter_of(loaded), joining=loaded.joining, **options)


def _announce(desk: Desk, *keys: str) -> None:
    for key in keys:
        desk.announce(f"m {key}", event(key, event_time_ms=desk.now_ms))


def _planned(desk: Desk) -> dict[str, list[str]]:
    """What a slot gets now, each with its side objects, and ends at once."""
    plan = desk.plan()
    found = {work.object.id.key: [side.key for side in work.sides] for work in desk.works[plan]}
    for work in desk.works[plan]:
        done = LedgerEntry(state=State.DONE, records=3, sides=work.sides, size=10)
        desk.commit(plan, work.object.id, done)
    desk.finish(plan)
    desk.tick()
    return found


def _sides(start: int) -> list[str]:
    return [_key(start, ".headers"), _key(start, ".keys")]


def _reasons(desk: Desk, *keys: str) -> list[str | None]:
    entries = [desk.entry(key) for key in keys]
    return [None if entry is None else entry.reason or entry.state.value for entry in entries]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_events_come_in_whatever_order(order: tuple[int, ...]) -> None:
    """The three are one work; their messages are deleted when the value object is done, and not before."""
    desk = _desk()
    _announce(desk, *_three(0))
    desk.tick()
    _planned(desk)  # the topic has shown its kinds

    for number in order:
        assert _planned(desk) == {}
        _announce(desk, _three(7)[number])
    settled = set(desk.settled)
    assert not any("0007" in message for message in settled)

    assert _planned(desk) == {_key(7): _sides(7)}
    assert _reasons(desk, *_three(7)) == ["done", "joined", "joined"]
    assert set(desk.settled) - settled == {f"m {key}" for key in _three(7)}
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("tombstones", ["after", "ignore"])
def test_a_tombstone_shows_that_its_topic_has_keys(tombstones: str) -> None:
    """A value whose keys do not come is restored without them, which is said, and keeps its object."""
    desk = _desk(tombstones=tombstones)
    _announce(desk, "topics/t/tombstone/t+0+0000000009.keys.json", _key(3))
    desk.tick()

    assert dict(desk.tick(_WAIT_MS).inexact) == {}
    desk.planner.ready(desk.now)
    assert dict(desk.tick().inexact) == {"side_object_missing": 1}


@pytest.mark.parametrize("tombstones", ["after", "ignore"])
def test_headers_of_a_tombstone_show_that_its_topic_has_headers(tombstones: str) -> None:
    """A value whose headers are late waits for them, though the first of its topic went without."""
    desk = _desk(tombstones=tombstones)
    _announce(desk, _key(0), _key(0, ".keys"))
    desk.tick()
    desk.tick(_WAIT_MS)
    assert _planned(desk) == {_key(0): [_key(0, ".keys")]}

    _announce(desk, "topics/t/tombstone/t+0+0000000009.headers.json", _key(3), _key(3, ".keys"))
    assert _planned(desk) == {}
    _announce(desk, _key(3, ".headers"))
    assert _planned(desk) == {_key(3): _sides(3)}


@pytest.mark.parametrize("extension", ["avro", "json", "snappy.parquet"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_a_listing_of_an_old_archive_waits_for_nothing(extension: str, size: int) -> None:
    """Wherever its pages end; and an object that lacks its keys goes on without them, counted."""
    desk = _desk()
    keys = sorted(
        [key for start in range(0, 9, 3) for key in _three(start, extension=extension)]
        + [_key(9, extension=extension), _key(9, ".headers", extension=extension)]
        + _three(12, extension=extension)
    )
    old = NOW - 10 * _WAIT_MS
    after = None
    inexact: dict[str, int] = {}
    found: dict[str, list[str]] = {}
    for first in range(0, len(keys), size):
        part = keys[first : first + size]
        through = part[-1] if first + size < len(keys) else None
        shown = [listed(key, last_modified_ms=old) for key in part]
        desk.observe(page(*shown, after_key=after, through_key=through))
        after = through
        desk.tick()
        found |= _planned(desk)
        inexact |= desk.tick().inexact

    assert {key: len(sides) for key, sides in found.items()} == {
        _key(start, extension=extension): 1 if start == 9 else 2 for start in range(0, 13, 3)
    }
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("first", [1, 2])
def test_a_listing_that_pauses_at_an_object_has_not_shown_its_keys(mode: str, first: int) -> None:
    """However long it pauses: what the next page shows is waited for, and what it does not show is not."""
    desk = _desk(mode=mode)
    keys = sorted(_three(0))
    shown = [listed(key, last_modified_ms=NOW - 10 * _WAIT_MS) for key in keys]
    desk.observe(page(*shown[:first], through_key=keys[first - 1]))
    for _ in range(3):
        desk.tick(_WAIT_MS)
        assert _planned(desk) == {}

    desk.observe(page(*shown[first:], after_key=keys[first - 1]))
    assert _planned(desk) == {_key(0): _sides(0)}
    assert _reasons(desk, *_three(0)) == ["done", "joined", "joined"]


def test_side_objects_that_fill_the_room_wait_for_an_object_that_the_ledger_has() -> None:
    """All three were replayed, and the driver resumes the side object first, for which there is room."""
    ledger = FakeLedger()
    for key in _three(0):
        ledger.commit(object_id(key), LedgerEntry(state=State.NEW, size=10))
    desk = _desk(ledger, max_pending_objects=1)
    for _ in range(5):
        desk.tick(_WAIT_MS)
        _planned(desk)
    assert _reasons(desk, *_three(0)) == ["done", "joined", "joined"]
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("breaks", [False, True])
def test_an_object_whose_keys_no_listing_shows_waits_no_longer_than_it_has_to(breaks: bool) -> None:
    """The next page has none of them, or a listing without order tells nothing of them."""
    desk = _desk()
    old = NOW - 10 * _WAIT_MS
    desk.observe(page(listed(_key(0), last_modified_ms=old), through_key=_key(0)))
    desk.tick(_WAIT_MS)
    assert _planned(desk) == {}

    more = [listed(key, last_modified_ms=old) for key in ("z", "y")]
    desk.observe(page(*(more if breaks else []), after_key=_key(0)))
    desk.tick(1000)
    assert _planned(desk) == {_key(0): []}


def test_an_archive_of_values_alone_waits_once() -> None:
    """One object of a topic waits in vain; the others need not, until one shows side objects."""
    desk = _desk()
    _announce(desk, _key(0))
    assert _planned(desk) == {}
    desk.tick(_WAIT_MS)
    assert _planned(desk) == {_key(0): []}

    _announce(desk, _key(3))
    assert _planned(desk) == {_key(3): []}
    _announce(desk, _key(6, ".keys"), _key(6), _key(9))
    assert _planned(desk) == {_key(6): [_key(6, ".keys")]}


@pytest.mark.parametrize(
    ("layout", "keys"),
    [
        ("confluent", [_key(start) for start in range(3)]),
        ("headrace", [f"t/0/{start:020}.headrace.jsonl.gz" for start in range(3)]),
    ],
)
def test_a_listing_of_values_alone_does_not_wait(layout: str, keys: list[str]) -> None:
    """It shows that there is nothing to wait for; the topic's younger objects do not wait then either."""
    desk = _desk(layout=layout)
    first, second, young = keys
    old = NOW - _WAIT_MS
    desk.observe(page(*(listed(key, last_modified_ms=old) for key in (first, second)), listed(young)))

    assert sorted(_planned(desk)) == keys


def test_what_waits_goes_when_its_topic_shows_that_there_is_nothing_to_wait_for() -> None:
    """In whatever order they were looked at; of another topic, and of one with keys, each waits its time."""
    desk = _desk()
    old = NOW - _WAIT_MS
    desk.observe(
        page(
            listed(_key(0)),
            listed(_key(3), last_modified_ms=old),
            listed(_key(0, topic="u")),
            listed(_key(0, topic="v")),
            *(listed(key, last_modified_ms=old) for key in sorted(_three(3, topic="v"))),
        )
    )

    assert set(_planned(desk)) == {_key(3), _key(3, topic="v")}
    assert set(_planned(desk)) == {_key(0)}
    desk.tick(_WAIT_MS)
    assert set(_planned(desk)) == {_key(0, topic="u"), _key(0, topic="v")}


def test_what_comes_while_the_first_object_waits_waits_no_longer_than_that() -> None:
    """Unless the topic has shown keys by then."""
    desk = _desk()
    _announce(desk, _key(0))
    assert _planned(desk) == {}
    desk.tick(_WAIT_MS - 1)
    _announce(desk, _key(3))
    assert _planned(desk) == {}

    desk.tick(1)
    assert _planned(desk) == {_key(0): []}
    assert _planned(desk) == {_key(3): []}


def test_what_is_required_waits_its_own_time() -> None:
    """The first object without keys says nothing of the others."""
    desk = _desk(mode="required")
    _announce(desk, _key(0))
    assert _planned(desk) == {}
    desk.tick(_WAIT_MS - 1)
    _announce(desk, _key(3))
    assert _planned(desk) == {}
    desk.tick(1)
    assert _planned(desk) == {}

    _announce(desk, _key(3, ".keys"))
    assert _planned(desk) == {_key(3): [_key(3, ".keys")]}


def test_what_is_young_in_a_listing_waits_for_the_rest_of_its_time() -> None:
    """The sink writes keys after values: a listing may have come between."""
    desk = _desk()
    shown = [listed(key, last_modified_ms=NOW - 10 * _WAIT_MS) for key in sorted(_three(0))]
    desk.observe(page(*shown, listed(_key(3), last_modified_ms=NOW - 1000)))
    assert list(_planned(desk)) == [_key(0)]

    desk.tick(_WAIT_MS - 1001)
    assert _planned(desk) == {}
    desk.tick(1)
    assert _planned(desk) == {_key(3): []}


@pytest.mark.parametrize(("wait_ms", "is_joined"), [(360_000, True), (60_000, False)])
def test_side_objects_five_minutes_late(wait_ms: int, *, is_joined: bool) -> None:
    """Joined where one waits for so long; else the value object goes on in its time, and they are late."""
    desk = _desk(wait_ms=wait_ms)
    _announce(desk, *_three(0))
    _planned(desk)
    _announce(desk, _key(3))
    read: dict[str, list[str]] = {}
    for _ in range(5):
        desk.tick(60_000)
        read |= _planned(desk)
    assert read == ({} if is_joined else {_key(3): []})

    _announce(desk, _key(3, ".keys"), _key(3, ".headers"))
    assert _planned(desk) == ({_key(3): _sides(3)} if is_joined else {})
    state = "joined" if is_joined else "side_object_late"
    assert _reasons(desk, *_three(3)) == ["done", state, state]
    assert {f"m {key}" for key in _three(3)} <= set(desk.settled)
    assert desk.catalogue.is_idle


def test_what_comes_too_late_is_counted_and_said() -> None:
    """The value object went on without: the side object is not read, and its message is done with."""
    desk = _desk()
    _announce(desk, *_three(0))
    _planned(desk)
    _announce(desk, _key(3))
    desk.tick(_WAIT_MS)
    assert _planned(desk) == {_key(3): []}
    _announce(desk, _key(3, ".keys"))

    assert dict(desk.tick().inexact) == {"side_object_late": 1}
    assert _reasons(desk, *_three(3)) == ["done", "side_object_late", None]
    assert f"m {_key(3, '.keys')}" in desk.settled
    assert desk.catalogue.is_idle


def test_going_on_without_is_counted() -> None:
    """Once, for the object that its topic's others show to lack something."""
    desk = _desk()
    _announce(desk, *_three(0))
    _planned(desk)
    _announce(desk, _key(3), _key(3, ".keys"))
    assert _planned(desk) == {}

    assert dict(desk.tick(_WAIT_MS).inexact) == {}
    desk.planner.ready(desk.now)
    assert dict(desk.tick().inexact) == {"side_object_missing": 1}
    assert _planned(desk) == {_key(3): [_key(3, ".keys")]}
    assert dict(desk.tick().inexact) == {}
    assert _reasons(desk, *_three(3)) == ["done", "joined", None]


@pytest.mark.parametrize("known", [(), (".keys",)])
def test_what_is_required_and_missing_is_quarantined(known: tuple[str, ...]) -> None:
    """With a sentence that names it; a replay after it has come is a whole restore."""
    desk = _desk(mode="required")
    _announce(desk, *_three(0))
    _planned(desk)
    _announce(desk, _key(3), *(_key(3, kind) for kind in known))
    desk.tick(_WAIT_MS)
    assert _planned(desk) == {}
    desk.tick()

    entry = desk.entry(_key(3))
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "side_object_missing")
    assert ("headers did not come" if known else "headers and keys did not") in (entry.error or "")
    assert desk.catalogue.is_idle


def test_required_of_a_topic_without_any_is_quarantined() -> None:
    """Else an archive whose keys were never written would come back without them, in silence."""
    desk = _desk(mode="required")
    _announce(desk, _key(0))
    desk.tick(_WAIT_MS)
    _planned(desk)

    assert _reasons(desk, _key(0)) == ["side_object_missing"]


def test_a_side_object_alone_is_remembered() -> None:
    """Its value object comes minutes later, after a restart: the ledger has where it is."""
    ledger = FakeLedger()
    desk = _desk(ledger)
    _announce(desk, _key(3, ".headers"), _key(3, ".keys"))
    with capture_logs() as logs:
        desk.tick(_WAIT_MS)
    assert _reasons(desk, *_sides(3)) == ["side_object_alone"] * 2
    assert [(each["event"], each["key"]) for each in logs] == [
        ("side_object_alone", key) for key in _sides(3)
    ]
    assert desk.catalogue.is_idle

    desk = _desk(ledger)
    _announce(desk, _key(3))
    assert _planned(desk) == {_key(3): _sides(3)}


def test_ignored_side_objects_are_nothing() -> None:
    """Values go out at once."""
    desk = _desk(mode="ignore")
    _announce(desk, *_three(0))

    assert _planned(desk) == {_key(0): []}
    assert desk.catalogue.is_idle


@pytest.mark.parametrize("ordering", [Ordering.PARTITION, Ordering.OBJECT])
def test_an_object_that_waits_holds_back_what_comes_after_it(ordering: Ordering) -> None:
    """In its own partition, where order counts."""
    desk = _desk(limits=BatchLimits(slots=1, ordering=ordering))
    _announce(desk, *_three(0))
    _planned(desk)
    _announce(desk, _key(3), *_three(6))

    assert list(_planned(desk)) == ([] if ordering is Ordering.PARTITION else [_key(6)])
    _announce(desk, _key(3, ".keys"), _key(3, ".headers"))
    assert list(_planned(desk)) == ([_key(3), _key(6)] if ordering is Ordering.PARTITION else [_key(3)])


def test_a_begun_object_goes_on_with_what_it_was_begun_with() -> None:
    """After a restart nothing is waited for: the entry names its side objects, whatever is listed."""
    ledger = FakeLedger()
    desk = _desk(ledger)
    _announce(desk, *_three(0))
    plan = desk.plan()
    (work,) = desk.works[plan]
    position = JoinedPosition(BytePosition(10), 2)
    partial = LedgerEntry(state=State.PARTIAL, position=position, sides=work.sides, size=10)
    desk.commit(plan, work.object.id, partial)

    again = _desk(ledger)
    plan = again.plan()
    (begun,) = again.works[plan]
    assert (begun.start, begun.sides) == (position, work.sides)
    again.commit(plan, begun.object.id, LedgerEntry(state=State.DONE, records=3, sides=begun.sides))
    again.finish(plan)
    # Only now the listing shows them: the value object has covered them.
    again.observe(page(*(listed(key) for key in sorted(_three(0)))))
    again.tick()
    assert _reasons(again, *_three(0)) == ["done", "joined", "joined"]
    assert again.catalogue.is_idle


def test_a_begun_object_takes_no_more_than_it_was_begun_with() -> None:
    """Its headers came after its first rows were read without: the rest goes on without waiting for them."""
    ledger = FakeLedger()
    sides = (SideObject(_key(0, ".keys"), "1", 10),)
    position = JoinedPosition(BytePosition(10), 2)
    ledger.commit(
        listed(_key(0)).id, LedgerEntry(state=State.PARTIAL, position=position, sides=sides, size=10)
    )
    desk = _desk(ledger)
    assert _planned(desk) == {_key(0): [_key(0, ".keys")]}

    desk.observe(page(*(listed(key) for key in sorted(_three(0)))))
    desk.tick()
    desk.tick()
    assert _reasons(desk, *_three(0)) == ["done", "joined", "side_object_late"]


@pytest.mark.parametrize("is_from_start", [True, False])
def test_a_begun_object_that_is_replayed_waits_for_its_keys(*, is_from_start: bool) -> None:
    """After a restart it had gone on with what it was begun with, which the replay has begun anew."""
    ledger = FakeLedger()
    begun = LedgerEntry(state=State.FAILED, position=BytePosition(10), is_kept=True, size=10)
    ledger.commit(listed(_key(0)).id, begun)
    desk = _desk(ledger)
    desk.tick()
    desk.planner.ready(desk.now)

    replay = Replay(selection=Selection(key=_key(0)), is_from_start=is_from_start)
    desk.do(desk.catalogue.apply_command(replay, [listed(_key(0))], desk.now))
    assert _planned(desk) == ({} if is_from_start else {_key(0): []})
    _announce(desk, _key(0, ".keys"), _key(0, ".headers"))
    assert _planned(desk) == ({_key(0): _sides(0)} if is_from_start else {})


def test_a_restart_counts_what_is_missing() -> None:
    """The listing shows that the topic had keys, all of them joined: one without is not as it was."""
    ledger = FakeLedger()
    desk = _desk(ledger)
    _announce(desk, *_three(0))
    _planned(desk)
    desk = _desk(ledger)
    desk.observe(page(*(listed(key) for key in sorted(_three(0)))))
    _announce(desk, _key(3))
    desk.tick()
    desk.tick(_WAIT_MS)
    desk.planner.ready(desk.now)

    assert dict(desk.tick().inexact) == {"side_object_missing": 1}


@pytest.mark.parametrize("come", [_three(0), (_key(0), _key(1), _key(1, ".keys"))], ids=["joined", "late"])
def test_a_restart_remembers_keys_that_are_gone(come: tuple[str, ...]) -> None:
    """A post-action has taken all that was restored: only the ledger knows that the topic has keys."""
    ledger = FakeLedger()
    desk = _desk(ledger)
    _announce(desk, *come)
    desk.tick(_WAIT_MS)
    _planned(desk)
    desk = _desk(ledger)
    _announce(desk, _key(3))
    desk.tick()
    desk.tick(_WAIT_MS)
    desk.planner.ready(desk.now)

    assert dict(desk.tick().inexact) == {"side_object_missing": 1}


def test_a_restart_learns_again_what_the_topic_has() -> None:
    """From side objects that are joined already, which the listing shows: a new object waits for its own."""
    ledger = FakeLedger()
    desk = _desk(ledger)
    _announce(desk, *_three(0))
    _planned(desk)
    desk = _desk(ledger)
    desk.observe(page(*(listed(key) for key in sorted(_three(0)))))
    _announce(desk, _key(3), _key(3, ".keys"))

    assert _planned(desk) == {}
    _announce(desk, _key(3, ".headers"))
    assert _planned(desk) == {_key(3): _sides(3)}


def test_a_value_object_written_again_is_another_work() -> None:
    """Its side objects may be the same ones or new ones; none is left behind."""
    desk = _desk()
    _announce(desk, *_three(0))
    desk.announce("again", event(_key(0), "2", sequencer="02"))
    assert _planned(desk) == {_key(0): _sides(0)}
    assert _planned(desk) == {_key(0): _sides(0)}

    assert _reasons(desk, *_three(0)) == ["done", "joined", "joined"]
    assert desk.catalogue.is_idle


_STEPS: Final = st.lists(
    st.sampled_from(["event", "listing", "plan", "wait", "restart"]), min_size=1, max_size=30
)


@settings(max_examples=examples(150), deadline=None)
@given(steps=_STEPS, order=st.permutations([key for start in (0, 3, 6) for key in _three(start)]))
def test_whatever_happens_each_value_is_read_once_and_nothing_alone(
    steps: list[str], order: list[str]
) -> None:
    """Events and listings in any order, restarts at any time: each object has one end, none is left over."""
    ledger = FakeLedger()
    desk = _desk(ledger)
    written: list[str] = []
    read: list[str] = []
    now = NOW
    for number, step in enumerate(
        [*steps, *["event"] * 9, "listing", "plan", "wait", "plan", "wait", "plan"]
    ):
        if step == "event" and order:
            written.append(order.pop())
            _announce(desk, written[-1])
        elif step == "listing":
            shown = [listed(key, last_modified_ms=NOW - 10 * _WAIT_MS) for key in sorted(written)]
            desk.observe(page(*shown, listing_id=number))
        elif step == "plan":
            read += _planned(desk)
        elif step == "wait":
            desk.tick(_WAIT_MS)
            now = desk.now_ms
        elif step == "restart":
            desk = _desk(ledger)
            desk.now_ms = now

    assert sorted(read) == [_key(start) for start in (0, 3, 6)]
    ends = _reasons(desk, *written)
    assert set(ends) <= {"done", "joined", "side_object_late", "side_object_alone"}
    assert desk.catalogue.is_idle
