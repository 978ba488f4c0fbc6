"""What tells a log that was cut off, and has grown again, from one that has not (KIP-320)."""

import pytest

from headrace.model.sink_entries import NO_EPOCH
from tests.spark.sink.granted import offsets_of


def test_what_is_covered_has_no_later_epoch_than_it_had() -> None:
    """The first such record is another one; above the highest, and where no epoch was known, all may."""
    one = offsets_of(2, highest=6, leader_epoch=3, epoch_end=2)
    assert one.note_epochs([(2, 1), (4, 3), (7, 5)], 9) is None
    assert one.note_epochs([(2, 1), (5, 4), (6, 5)], 9) == 5
    assert offsets_of(2, highest=6).note_epochs([(0, 4)], 9) is None


def test_a_checkpoint_has_the_latest_epoch_that_was_read() -> None:
    """A later one than that of the records before it proves as much, and what is covered needs it."""
    one = offsets_of(2, highest=6, leader_epoch=3, epoch_end=2)
    one.note_epochs([(2, 1)], 4)
    one.advance(4)
    assert one.commit().checkpoint.leader_epoch == 3
    one.note_epochs([(4, 3), (7, 5)], 9)
    one.advance(9)
    assert one.commit().checkpoint.leader_epoch == 5


def test_the_epoch_of_what_is_refused_is_in_no_checkpoint() -> None:
    """The next start would pass over what an object of lost records covers: it was lost in silence."""
    one = offsets_of(2, highest=6, leader_epoch=3, epoch_end=2)
    assert one.note_epochs([(2, 3), (5, 4)], 9) == 5
    one.advance(5)
    checkpoint = one.commit().checkpoint
    assert (checkpoint.leader_epoch, checkpoint.epoch_end) == (3, 5)
    again = offsets_of(5, highest=6, leader_epoch=3, epoch_end=5)
    assert again.note_epochs([(5, 4)], 9) == 5


def test_markers_before_an_offset_are_read_again() -> None:
    """They may be of a later epoch, by which the records' own would end before the offset.

    A record where they were is of a log that was cut off there.
    """
    one = offsets_of()
    assert one.start == (0, NO_EPOCH)
    one.note_epochs([(0, 1)], 4)
    one.advance(6)
    checkpoint = one.commit().checkpoint
    assert (checkpoint.offset, checkpoint.leader_epoch, checkpoint.epoch_end) == (6, 1, 4)
    again = offsets_of(6, highest=3, leader_epoch=1, epoch_end=4)
    assert again.start == (4, 1)
    assert again.note_epochs([(6, 2)], 7) is None
    assert again.note_epochs([(4, 2)], 7) == 4
    again.advance(7)
    assert again.start == (7, 2)
    again.abandon()
    assert again.start == (6, 2)


def test_markers_whose_epoch_is_known_are_not_read_again() -> None:
    """Also of a log that has shown nothing else: it is known by them when it was cut off."""
    one = offsets_of()
    one.read_to(4, 2)
    checkpoint = one.commit().checkpoint
    assert (checkpoint.offset, checkpoint.leader_epoch, checkpoint.epoch_end) == (4, 2, 4)
    assert one.start == (4, 2)
    one.read_to(5, NO_EPOCH)
    assert (one.position, one.start) == (5, (4, 2))


@pytest.mark.parametrize(("offset", "epoch_end"), [(5, 5), (5, 11)])
def test_a_marker_of_another_log_is_not_taken_for_what_entries_cover(offset: int, epoch_end: int) -> None:
    """Its epoch would become theirs with the next commit, and new records pass for archived ones."""
    one = offsets_of(offset, highest=10, leader_epoch=0, epoch_end=epoch_end)
    before = one.start
    assert one.read_to(8, 5) == 5
    assert (one.position, one.start) == (5, before)
    assert one.commit().checkpoint.leader_epoch == 0
    assert one.note_epochs([(8, 5)], 11) == 8


def test_a_marker_among_what_entries_cover_is_of_no_later_epoch() -> None:
    """Also after a change of leaders: a record that is covered above it has its epoch, or a later one."""
    again = offsets_of(5, highest=9, leader_epoch=1, epoch_end=5)
    again.note_epochs([(5, 0)], 8)
    again.advance(8)
    assert again.read_to(9, 1) is None
    assert again.position == 9


def test_a_marker_after_what_entries_cover_may_be_of_any_epoch() -> None:
    """As may one where no epoch is known of them."""
    one = offsets_of(5, highest=7, leader_epoch=0, epoch_end=5)
    one.note_epochs([(5, 0)], 8)
    one.advance(8)
    assert one.read_to(9, 1) is None
    assert one.commit().checkpoint.leader_epoch == 1
    assert offsets_of(5, highest=10).read_to(6, 4) is None


def test_a_record_where_none_was_is_of_another_log() -> None:
    """Within a slot as well; one that is given once more, as a registry was away, is the same."""
    one = offsets_of(leader_epoch=1)
    assert one.note_epochs([(0, 2)], 4) is None
    one.advance(4)
    assert one.note_epochs([(0, 2)], 4) is None
    one.read_to(6, NO_EPOCH)
    assert one.note_epochs([(4, 3)], 7) == 4


def test_what_a_slot_has_covered_itself_may_be_of_a_later_epoch_than_its_grant() -> None:
    """Of the latest that its own commit has."""
    one = offsets_of(leader_epoch=1)
    one.note_epochs([(0, 2)], 8)
    one.open("A", "a", 0)
    one.open("B", "b", 1)
    one.advance(8)
    one.seal("B", 7)
    one.committed(one.commit())
    one.abandon()
    assert one.highest == 7
    assert one.note_epochs([(0, 2)], 8) is None
    assert one.note_epochs([(0, 2), (5, 3)], 8) == 5


def test_what_lies_before_an_offset_is_not_asked_for_once_kafka_has_deleted_it() -> None:
    """A replica that begins earlier would say that the epoch ended before; entries are judged by it still."""
    one = offsets_of(7, highest=8, leader_epoch=1, epoch_end=9)
    assert one.start == (7, NO_EPOCH)
    assert one.note_epochs([(7, 2)], 8) == 7
    assert one.start == (7, NO_EPOCH)
    assert one.note_epochs([(7, 0), (8, 1), (9, 2)], 10) is None
    one.advance(8)
    checkpoint = one.commit().checkpoint
    assert (checkpoint.offset, checkpoint.leader_epoch, checkpoint.epoch_end) == (8, 2, 8)
    assert one.start == (8, 2)


def test_an_epoch_of_entries_alone_stays_one_until_a_record_is_read() -> None:
    """Aborted records of an unknown epoch prove nothing; above the entries it is needed no more."""
    one = offsets_of(7, highest=9, leader_epoch=1, epoch_end=10)
    one.read_to(9, NO_EPOCH)
    checkpoint = one.commit().checkpoint
    assert (checkpoint.offset, checkpoint.leader_epoch, checkpoint.epoch_end) == (9, 1, 10)
    one.read_to(12, NO_EPOCH)
    assert one.commit().checkpoint.leader_epoch == NO_EPOCH
    one.read_to(13, 2)
    assert one.start == (13, 2)


def test_what_is_deleted_while_a_slot_reads_is_not_asked_for() -> None:
    """A broker that was killed may have it again, with a later epoch: none of it was read.

    Below the position were only markers.
    """
    one = offsets_of(3, leader_epoch=1, epoch_end=3)
    assert one.deleted(3, 10) == 3
    one.read_to(10, NO_EPOCH)
    assert one.start == (10, NO_EPOCH)
    checkpoint = one.commit().checkpoint
    assert (checkpoint.offset, checkpoint.leader_epoch, checkpoint.epoch_end) == (10, NO_EPOCH, 10)
    assert one.note_epochs([(3, 1), (5, 2)], 10) is None
    assert one.start == (10, NO_EPOCH)
    assert one.deleted(2, 10) is None
    one.note_epochs([(10, 2)], 11)
    one.advance(11)
    assert one.start == (11, 2)


def test_what_is_deleted_while_a_slot_reads_leaves_the_epoch_of_entries() -> None:
    """As at a start."""
    one = offsets_of(3, highest=8, leader_epoch=1, epoch_end=3)
    assert one.deleted(2, 6) == 3
    one.read_to(6, NO_EPOCH)
    checkpoint = one.commit().checkpoint
    assert (checkpoint.offset, checkpoint.leader_epoch, checkpoint.epoch_end) == (6, 1, 9)
    assert one.note_epochs([(6, 1), (7, 2)], 9) == 7


def test_the_epoch_of_entries_is_not_that_of_the_first_records_that_are_read_again() -> None:
    """Where none is known, as of another sink's files, what is covered may be of any, up to its end."""
    one = offsets_of(7, highest=9)
    for offset, epoch in ((7, 1), (8, 1), (9, 2)):
        assert one.note_epochs([(offset, epoch)], offset + 1) is None
        one.advance(offset + 1)
        known = epoch if offset == 9 else NO_EPOCH
        commit = one.commit()
        assert commit.checkpoint.leader_epoch == known
        one.committed(commit)
