"""What goes into a batch: never more than the limits, never nothing where something waits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.objects import ObjectId, S3Object
from spark.frames.admission import NO_LIMITS, ReadLimits, WaitingObjects, admitted
from spark.frames.log_entries import identity

_LIMITS = st.builds(
    ReadLimits, max_files=st.none() | st.integers(1, 6), max_bytes=st.none() | st.integers(1, 100)
)


def object_of(number: int, size: int, modified_ms: int = 0) -> S3Object:
    """An object."""
    return S3Object(id=ObjectId("b", f"k{number}", "e"), size=size, last_modified_ms=modified_ms)


def waiting_of(sizes: list[int], *, min_age_ms: int = 0) -> WaitingObjects:
    """Objects of these sizes that wait; each is a second younger than the one before."""
    waiting = WaitingObjects(min_age_ms=min_age_ms)
    for number, size in enumerate(sizes):
        found = object_of(number, size, number * 1000)
        waiting.add(identity(found.id), found, found_ms=1_000_000)
    return waiting


@given(st.lists(st.integers(0, 80)), _LIMITS)
def test_batches_hold_to_their_limits(sizes: list[int], limits: ReadLimits) -> None:
    """All objects come, in their order, each once; one alone may be larger than the limit."""
    waiting = waiting_of(sizes)
    seen: list[S3Object] = []
    while taken := waiting.take(limits, now_ms=0):
        waiting.remove(taken)
        batch = list(taken.values())
        assert limits.max_files is None or len(batch) <= limits.max_files
        assert (
            limits.max_bytes is None or len(batch) == 1 or sum(one.size for one in batch) <= limits.max_bytes
        )
        assert waiting.bytes == sum(sizes[len(seen) + len(batch) :])
        seen += batch

    assert [one.size for one in seen] == sizes
    assert len(waiting) == 0


@given(st.lists(st.integers(0, 80), min_size=1), _LIMITS)
def test_a_batch_is_as_full_as_it_may_be(sizes: list[int], limits: ReadLimits) -> None:
    """The next object would be too many."""
    objects = [object_of(number, size) for number, size in enumerate(sizes)]
    batch = list(admitted(objects, limits))
    following = objects[len(batch) : len(batch) + 1]

    if following:
        is_full = limits.max_files is not None and len(batch) == limits.max_files
        size = sum(one.size for one in [*batch, *following])
        assert is_full or (limits.max_bytes is not None and size > limits.max_bytes)


@pytest.mark.parametrize(("now_ms", "count"), [(0, 0), (4999, 0), (5000, 1), (6999, 2), (100_000, 3)])
def test_young_objects_wait(now_ms: int, count: int) -> None:
    """`object.min.age.ms`: an object that is not old enough keeps no other one back."""
    waiting = waiting_of([1, 1, 1], min_age_ms=5000)

    assert len(waiting.take(NO_LIMITS, now_ms)) == count
    assert waiting.next_ready_ms() == 5000


@pytest.mark.parametrize(("modified_ms", "ripe_ms"), [(0, 5000), (9_000, 14_000), (7_200_000, 15_000)])
def test_no_object_waits_for_longer_than_its_age(modified_ms: int, ripe_ms: int) -> None:
    """From when it was found, where the store's clock is ahead of the driver's, by hours even."""
    waiting = WaitingObjects(min_age_ms=5000)
    found = object_of(0, 1, modified_ms)
    waiting.add(identity(found.id), found, found_ms=10_000)

    assert waiting.next_ready_ms() == ripe_ms
    assert not waiting.take(NO_LIMITS, ripe_ms - 1)
    taken = waiting.take(NO_LIMITS, ripe_ms)
    assert len(taken) == 1
    waiting.remove(taken)
    assert waiting.next_ready_ms() is None


def test_an_object_waits_once() -> None:
    """An event and a listing may both tell of it."""
    waiting = waiting_of([5])
    waiting.add(identity(ObjectId("b", "k0", "e")), object_of(0, 5), found_ms=1_000_000)

    assert (len(waiting), waiting.bytes) == (1, 5)


@pytest.mark.parametrize(("fresh", "listed", "order"), [(6, 3, "ffffbffbb"), (0, 3, "bbb"), (2, 3, "ffbbb")])
def test_fresh_objects_go_first_and_the_backlog_keeps_a_share(fresh: int, listed: int, order: str) -> None:
    """An upload does not wait for a listing, nor a listing for uploads that never end."""
    waiting = WaitingObjects()
    for number in range(listed + fresh):
        found = object_of(number, 1)
        waiting.add(identity(found.id), found, found_ms=1_000_000, is_fresh=number >= listed)

    taken = [int(found.id.key[1:]) for found in waiting.take(NO_LIMITS, 0).values()]
    assert "".join("f" if number >= listed else "b" for number in taken) == order


def _taken(waiting: WaitingObjects, limits: ReadLimits) -> list[str]:
    """The keys of the next batch, which is durable then; a look before changes nothing of it."""
    looked = waiting.take(limits, 0)
    taken = waiting.take(limits, 0)
    assert list(taken) == list(looked)
    waiting.remove(taken)
    return [found.id.key for found in taken.values()]


@given(
    st.lists(st.integers(0, 120), min_size=1, max_size=8),
    st.lists(st.lists(st.integers(0, 120), min_size=1, max_size=5), min_size=1, max_size=6),
    _LIMITS,
    st.integers(0, 3),
)
def test_neither_kind_waits_for_the_other_without_end(
    backlog: list[int], uploads: list[list[int]], limits: ReadLimits, young: int
) -> None:
    """With uploads for each batch one of five has an object of the backlog, and one of two a fresh one."""
    waiting = WaitingObjects(min_age_ms=1)
    for number, size in enumerate([1] * young + backlog):
        found = object_of(number, size, 0 if number < young else -1)
        waiting.add(identity(found.id), found, found_ms=1_000_000)
    numbers = itertools.count(young + len(backlog))
    had_fresh, left = True, len(backlog)
    for batch in itertools.count(1):
        for size in uploads[batch % len(uploads)]:
            fresh = object_of(next(numbers), size, -1)
            waiting.add(identity(fresh.id), fresh, found_ms=1_000_000, is_fresh=True)
        taken = [int(key[1:]) for key in _taken(waiting, limits)]
        of_backlog = sum(young <= number < young + len(backlog) for number in taken)
        left -= of_backlog
        assert had_fresh or len(taken) > of_backlog
        had_fresh = len(taken) > of_backlog
        assert batch <= 5 * (len(backlog) - left) + 4
        if not left:
            break


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        (ReadLimits(max_bytes=100), ["f", "b", "ff", "b", "ff", "b"]),
        (ReadLimits(max_files=1), ["f", "b", "f", "f", "f", "f", "b"]),
        (ReadLimits(max_files=2), ["fb", "fb", "fb", "f"]),
    ],
)
def test_a_turn_continues_in_the_next_batch(limits: ReadLimits, batches: list[str]) -> None:
    """One upload comes for each batch: what the listing found has its turn, whether it fits in or not."""
    waiting = WaitingObjects()
    for number in range(3):
        found = object_of(number, 100)
        waiting.add(identity(found.id), found, found_ms=1_000_000)
    made = []
    for number in range(3, 3 + len(batches)):
        fresh = object_of(number, 1)
        waiting.add(identity(fresh.id), fresh, found_ms=1_000_000, is_fresh=True)
        made.append("".join("b" if int(key[1:]) < 3 else "f" for key in _taken(waiting, limits)))

    assert made == batches


def test_an_upload_does_not_wait_for_a_listing_of_large_objects() -> None:
    """The backlog alone fills batches: an upload that comes between two of them is in the next one."""
    waiting = waiting_of([100] * 3)
    limits = ReadLimits(max_bytes=100)

    assert _taken(waiting, limits) == ["k0"]
    waiting.add(b"fresh", object_of(9, 1), found_ms=1_000_000, is_fresh=True)
    assert [_taken(waiting, limits) for _ in range(3)] == [["k9"], ["k1"], ["k2"]]
