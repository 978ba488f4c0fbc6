"""Who waits for something else is woken when an end is asked for."""

import queue

from ingest.service.stop import Stop


def test_who_waits_is_woken_while_it_waits() -> None:
    """For each time it is asked: the second asks for an end at once."""
    stop, inbox = Stop(), queue.SimpleQueue[bool]()
    with stop.waking(lambda: inbox.put(stop.asked.is_set())):
        stop.ask("a test")
        assert inbox.get_nowait()
        stop.ask("a test")
        assert inbox.get_nowait()
    stop.ask("a test")
    assert inbox.empty()
