"""While an ingester is paused or stopped its messages are safe: held, or back on the queue."""

import asyncio

from tests.support.listening import FakeQueue, Inbox, listening
from tests.support.until import until


def test_a_paused_listener_takes_nothing_and_keeps_what_it_holds() -> None:
    """What comes is for others, or for later; what is held stays hidden and can be settled."""

    async def scenario() -> None:
        inbox, other, queue = Inbox(), Inbox(), FakeQueue(visibility=3)
        for number in range(3):
            queue.send(str(number))
        async with listening(queue, inbox) as listener:
            await until(lambda: inbox.counts["heartbeats"] >= 3, what="three that are hidden for long")
            listener.pause()
            await until(lambda: queue.calls["receive"] == inbox.answers, what="no call under way")
            answers = inbox.answers
            queue.send("later")
            async with listening(queue, other):
                await until(lambda: other.answers >= 4, what="two long polls of the other's two receivers")
                assert other.bodies == ["later"]
                assert inbox.answers == answers
            assert listener.held == 3
            listener.settle(delivery.id for delivery in inbox.deliveries)
            await until(lambda: list(queue.messages) == ["m3"])
            listener.resume()
            await until(lambda: inbox.bodies[3:] == ["later"])

    asyncio.run(scenario())


def test_a_stopped_listener_gives_everything_back_what_is_still_coming_too() -> None:
    """A call under way may bring a message after the release; it is not kept either, and nobody is told."""

    async def scenario() -> None:
        inbox, other, queue = Inbox(), Inbox(), FakeQueue(visibility=300)
        for number in range(3):
            queue.send(str(number))
        async with listening(queue, inbox) as listener:
            await until(lambda: len(inbox.deliveries) == 3)
            await until(lambda: queue.calls["receive"] > inbox.answers, what="a call under way")
            listener.pause()
            listener.release_all()
            queue.send("late")
            await until(lambda: queue.calls["receive"] == inbox.answers, what="no call under way")
            assert listener.held == 0
            assert len(inbox.deliveries) == 3
            async with listening(queue, other):
                await until(lambda: sorted(other.bodies) == ["0", "1", "2", "late"])
            listener.resume()
            await until(lambda: len(inbox.deliveries) == 7)

    asyncio.run(scenario())


def test_a_delete_that_fails_after_a_stop_is_made_again_after_the_resume() -> None:
    """It was under way as the message was released, which comes back, is settled, and holds no place."""

    async def scenario() -> None:
        arrived, may_fail = asyncio.Event(), asyncio.Event()
        failed: list[str] = []

        async def before(call: str) -> None:
            if call == "delete":
                arrived.set()
                await may_fail.wait()

        def refuses(call: str, handle: str) -> bool:
            is_first = call == "delete" and not failed
            if is_first:
                failed.append(handle)
            return is_first

        inbox, queue = Inbox(), FakeQueue(visibility=300, before=before, refuses=refuses)
        message_id = queue.send("one")
        async with listening(queue, inbox) as listener:
            await until(lambda: len(inbox.deliveries) == 1)
            listener.settle([message_id])
            await arrived.wait()
            listener.pause()
            listener.release_all()
            await until(lambda: queue.calls["receive"] == inbox.answers, what="no call under way")
            assert listener.held == 0
            may_fail.set()
            await until(lambda: failed)
            listener.resume()
            await until(lambda: len(inbox.deliveries) == 2)
            listener.settle([message_id])
            await until(lambda: not queue.messages and not listener.held, what="no message")

    asyncio.run(scenario())
