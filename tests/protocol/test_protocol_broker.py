"""The model's broker and group behave as Kafka was found to behave; the protocol stands on these facts."""

from tests.protocol.model.broker import Broker, Entry, Known, ProducerState, merged
from tests.protocol.model.group import NO_MEMBER, Group, Metadata

HALF = Entry("partial", 1)
DONE = Entry("done", 2)


def three_slots() -> Broker:
    """A driver and two slots, each initialised once."""
    return Broker((ProducerState(),) * 3).initialised(0).initialised(1).initialised(2)


class TestTransactions:
    """What a transactional id allows, and when its records are seen."""

    def test_a_commit_shows_rows_and_checkpoint_together(self) -> None:
        """Before the decision nothing, after it both."""
        open_one = three_slots().begun(1).produced(1, [("a", 0)], [("a", HALF)])
        assert (open_one.visible, open_one.read()) == ((), ())
        done = open_one.decided(1).closed(1)
        assert (done.visible, done.read()) == ((("a", 0),), (Known("a", 0, HALF),))

    def test_initialising_aborts_what_is_open(self) -> None:
        """Its rows are never seen, and the old producer is refused."""
        after = three_slots().begun(1).produced(1, [("a", 0)], [("a", HALF)]).initialised(1)
        assert (after.visible, after.read(), after.is_current(1, 1)) == ((), (), False)

    def test_initialising_completes_what_is_decided(self) -> None:
        """A commit that the coordinator has is not undone by a fence."""
        decided = three_slots().begun(1).produced(1, [("a", 0)], [("a", HALF)]).decided(1)
        assert decided.read() == ()
        assert decided.initialised(1).read() == (Known("a", 0, HALF),)

    def test_an_open_transaction_hides_a_neighbours_commit(self) -> None:
        """The last stable offset is no end: an acknowledged commit lies above it."""
        both = three_slots().begun(1).produced(1, [], [("a", HALF)]).begun(2).produced(2, [], [("b", DONE)])
        done = both.decided(2).closed(2)
        assert (done.last_stable_offset(), done.end(), done.read()) == (0, 2, ())
        assert done.initialised(1).read() == (Known("b", 1, DONE),)

    def test_compaction_keeps_offsets_and_what_is_newest(self) -> None:
        """What a reader gets is the same before and after."""
        log = three_slots().produced_plainly([("a", HALF), ("b", DONE), ("a", DONE)])
        small = log.compacted()
        assert small.read() == log.read() == (Known("a", 2, DONE), Known("b", 1, DONE))
        assert [record.key for record in small.log] == ["", "b", "a"]


class TestGroup:
    """Whose offset commits are accepted."""

    group = Group("one", ("one", "two"), 7)

    def test_the_leader_and_any_waiting_member(self) -> None:
        """The broker looks at member and generation, not at who holds the partition."""
        assert self.group.accepts(Metadata("one", 7))
        assert self.group.accepts(Metadata("two", 7))

    def test_no_member_is_accepted_unchecked(self) -> None:
        """(-1, '') is what a consumer without a group sends."""
        assert self.group.accepts(NO_MEMBER)

    def test_the_deposed_and_the_old_generation_are_not(self) -> None:
        """A hand-over raises the generation, a join does too."""
        assert not self.group.handed_over("two").accepts(Metadata("one", 7))
        assert not self.group.joined("three").accepts(Metadata("one", 7))

    def test_a_rotated_member_id_is_refused_at_once(self) -> None:
        """The generation stays, the old id is unknown."""
        rotated = self.group.rotated("one'")
        assert not rotated.accepts(Metadata("one", 7))
        assert rotated.accepts(Metadata("one'", 7))


def test_a_view_keeps_what_is_newer() -> None:
    """A read below an acknowledged commit does not bring the older entry back."""
    view = (Known("a", 5, DONE),)
    assert merged(view, [Known("a", 3, HALF)], newest_wins=True) == view
    assert merged(view, [Known("a", 3, HALF)], newest_wins=False) == (Known("a", 3, HALF),)
