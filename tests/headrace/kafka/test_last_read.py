"""Which of several readers of a ledger has come furthest, and how that is written down."""

from operator import attrgetter

import pytest

from headrace.kafka.cache_files import LastRead

_UNKNOWN = LastRead(-1, 50)


@pytest.mark.parametrize(
    ("found", "furthest"),
    [
        ([LastRead(3, 50), LastRead(4, 49)], LastRead(3, 50)),
        # Brokers that name no epochs, and, since, such that do.
        ([_UNKNOWN, LastRead(3, 50)], LastRead(3, 50)),
        ([LastRead(3, 50), _UNKNOWN], LastRead(3, 50)),
        ([LastRead(3, 49), _UNKNOWN], _UNKNOWN),
        # The later one is of a log that was cut off, and has grown to this end already.
        ([LastRead(4, 50), LastRead(3, 50)], LastRead(3, 50)),
        ([_UNKNOWN, _UNKNOWN], _UNKNOWN),
    ],
)
def test_of_readers_at_one_offset_one_that_knows_its_epoch_is_the_furthest(
    found: list[LastRead], furthest: LastRead
) -> None:
    """By the epoch alone a log that was cut off and has grown again is told from what was read."""
    assert max(found, key=attrgetter("place")) == furthest
    assert LastRead.of_text(furthest.text) == furthest
