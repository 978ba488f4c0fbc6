"""When the configuration topic counts as read: to its end, and to what was just written there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from headrace.kafka.control_records import connector_key
from headrace.model.errors import HeadraceError, InvalidLedger, Unavailable
from headrace.model.ledger_entry import ControlKey
from ingest.connect.connector_loading import await_read_back, is_read_to

_KEY = connector_key("x")
_OURS = b"ours"


@dataclass
class Follows:
    """A reading that has come so far, or has failed."""

    position: int
    error: HeadraceError | None = None
    read: dict[ControlKey, bytes] = field(default_factory=dict)

    @property
    def cache(self) -> "Follows":
        """Itself."""
        return self

    def controls(self) -> dict[ControlKey, bytes]:
        """What it has read."""
        return self.read

    def reads_to(self, end: int, timeout: float) -> bool:
        """Whether it is there; it does not move."""
        assert timeout >= 0
        if self.error is not None:
            raise self.error
        return self.position >= end


@pytest.mark.parametrize(
    ("led", "reader", "is_read"),
    [
        pytest.param(Follows(10), Follows(10), True, id="both"),
        pytest.param(Follows(10), Follows(7), False, id="only who leads"),
        pytest.param(Follows(7), Follows(10), False, id="only its reader"),
        pytest.param(Follows(10), None, True, id="who leads, without a reader"),
        pytest.param(Follows(10), Follows(7, InvalidLedger("it is gone")), True, id="a reader that failed"),
        pytest.param(None, Follows(10), True, id="a reader"),
        pytest.param(None, Follows(7), False, id="a reader that is late"),
        pytest.param(None, None, False, id="nothing"),
    ],
)
def test_who_leads_and_its_reader_have_to_be_there(
    led: Follows | None, reader: Follows | None, *, is_read: bool
) -> None:
    """Who hung loses the lead while it reads, and answers by its reader then, which hung as well."""
    assert is_read_to(10, led, reader, seconds=0.0) is is_read


def test_a_reading_that_failed_is_said_where_it_is_the_one_that_is_asked() -> None:
    """Of who leads its own, else the reader's."""
    failed = Follows(10, InvalidLedger("it is gone"))

    for led, reader in ((failed, Follows(10)), (None, failed)):
        with pytest.raises(InvalidLedger, match="it is gone"):
            is_read_to(10, led, reader, seconds=0.0)


@dataclass
class Brokers:
    """A clock that goes by half a second each time it is read, and what brokers give as the topic's end."""

    led: Follows
    ends: Sequence[int]
    now: float = 0.0
    asked: list[int] = field(default_factory=list)
    on_asked: Callable[[], None] = lambda: None

    def clock(self) -> float:
        """See time.monotonic."""
        self.now += 0.5
        return self.now

    def end(self) -> int:
        """The next of the ends, and the last one from then on."""
        self.asked.append(self.ends[min(len(self.asked), len(self.ends) - 1)])
        self.on_asked()
        return self.asked[-1]

    def await_read_back(self, failures: Sequence[HeadraceError] = ()) -> None:
        """Of one record that was written when the topic's end was 10: it ends at 12 with its commit."""
        await_read_back(
            self.led,
            [(_KEY, _OURS)],
            least=12,
            ask_end=self.end,
            failures=failures,
            clock=self.clock,
        )


def test_what_is_read_is_not_asked_for() -> None:
    """No broker is asked for the end."""
    brokers = Brokers(Follows(12, read={_KEY: _OURS}), ends=())

    brokers.await_read_back()

    assert brokers.asked == []


def test_what_another_program_wrote_over_is_read_at_the_end() -> None:
    """It is never there, and the wait is over once all is read."""
    brokers = Brokers(Follows(13, read={_KEY: b"theirs"}), ends=(13,))

    brokers.await_read_back()

    assert brokers.asked == [13]


def test_an_end_without_the_change_is_none() -> None:
    """A broker that has just become the leader gave the one of before: the change was not read by then."""
    led = Follows(10, read={_KEY: b"of before"})

    def read() -> None:
        if len(brokers.asked) == 3:
            led.position, led.read[_KEY] = 12, _OURS

    brokers = Brokers(led, ends=(10, 11, 12), on_asked=read)
    brokers.await_read_back()

    assert (brokers.asked, led.read) == ([10, 11, 12], {_KEY: _OURS})


def test_an_end_without_the_change_is_not_asked_for_for_ever() -> None:
    """After 30 seconds it is said that the change is written and not read."""
    brokers = Brokers(Follows(10), ends=(10,))

    with pytest.raises(Unavailable, match="cannot be read back yet"):
        brokers.await_read_back()
    assert 5 < len(brokers.asked) <= 30


def test_a_reading_that_has_ended_is_not_waited_for() -> None:
    """With what has ended it."""
    brokers = Brokers(Follows(10), ends=(10,))

    with pytest.raises(Unavailable, match=r"cannot be read back: .*it is gone"):
        brokers.await_read_back([InvalidLedger("it is gone")])
