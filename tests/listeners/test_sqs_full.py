"""`sqs.max.held` reached: nothing more is received, unless what is held waits for something outside."""

import asyncio

from listeners.discovery_events import HeldFull
from listeners.sqs import QueueOptions
from tests.support.listening import QUICK, FakeQueue, Inbox, listening
from tests.support.until import until

OPTIONS = QueueOptions(wait_seconds=1, max_held=3, receive_pauses=QUICK, settle_pauses=QUICK)


def test_parked_messages_make_room_and_are_not_deleted() -> None:
    """They are asked for again and again while it is full: objects fail as time goes by."""

    async def scenario() -> None:
        inbox, queue = Inbox(), FakeQueue(visibility=300)
        failing = [queue.send(f"failing {number}") for number in range(3)]
        async with listening(queue, inbox, options=OPTIONS) as listener:
            await until(lambda: len(inbox.of(HeldFull)) >= 2)
            queue.send("fine")
            asked = len(inbox.of(HeldFull))
            await until(lambda: len(inbox.of(HeldFull)) > asked)
            assert len(inbox.deliveries) == 3
            listener.park(failing)
            await until(lambda: "fine" in inbox.bodies)
            assert set(queue.messages) > set(failing)
            assert listener.held == 4
            listener.settle(failing)
            await until(lambda: set(queue.messages) == {"m3"})

    asyncio.run(scenario())


def test_where_there_is_room_nobody_is_asked() -> None:
    """Only a full book posts."""

    async def scenario() -> None:
        inbox, queue = Inbox(), FakeQueue(visibility=300)
        queue.send("one")
        async with listening(queue, inbox, options=OPTIONS):
            await until(lambda: inbox.answers > 2)
        assert inbox.of(HeldFull) == []

    asyncio.run(scenario())
