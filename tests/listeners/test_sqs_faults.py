"""Partial failures, refusals and redeliveries, by a queue in memory that fails on request."""

import asyncio
import time
from collections import Counter

import pytest

from headrace.model.errors import AccessDenied, ResourceMissing, SourceUnavailable
from listeners.sqs import QueueOptions
from tests.support.listening import QUICK, FakeQueue, Inbox, listening, service_error
from tests.support.until import until

OPTIONS = QueueOptions(wait_seconds=0, receivers=1, receive_pauses=QUICK, settle_pauses=QUICK)


def test_failed_entries_of_a_delete_are_repeated() -> None:
    """One entry in three fails twice; in the end all are deleted, the others not twice."""

    async def scenario() -> None:
        inbox, tries = Inbox(), Counter[str]()

        def refuses(call: str, handle: str) -> bool:
            tries[handle] += 1
            return call == "delete" and int(handle[1:].partition("/")[0]) % 3 == 0 and tries[handle] <= 2

        queue = FakeQueue(refuses=refuses)
        for number in range(30):
            queue.send(str(number))
        async with listening(queue, inbox, options=OPTIONS) as listener:
            await until(lambda: len(inbox.deliveries) == 30)
            listener.settle(delivery.id for delivery in inbox.deliveries)
            await until(lambda: inbox.counts["settled"] == 30)
        assert queue.messages == {}
        assert sorted(tries.values()) == [1] * 20 + [3] * 10
        assert queue.longest_batch == 10

    asyncio.run(scenario())


def test_what_cannot_be_deleted_is_left_to_redelivery() -> None:
    """After some tries the message is let go: it comes again, is settled again, and then goes."""

    async def scenario() -> None:
        inbox, is_broken = Inbox(), True
        queue = FakeQueue(visibility=1, refuses=lambda call, _handle: call == "delete" and is_broken)
        queue.send("stubborn")
        options = QueueOptions(
            wait_seconds=0, receivers=1, extension_seconds=1, receive_pauses=QUICK, settle_pauses=QUICK
        )
        async with listening(queue, inbox, options=options) as listener:
            await until(lambda: len(inbox.deliveries) == 1)
            listener.settle([inbox.deliveries[0].id])
            await until(lambda: inbox.counts["unsettled"] == 1)
            assert queue.calls["delete"] == 5
            is_broken = False
            await until(lambda: len(inbox.deliveries) == 2)
            listener.settle([inbox.deliveries[1].id])
            await until(lambda: inbox.counts["settled"] == 1)
        assert queue.messages == {}

    asyncio.run(scenario())


def test_a_redelivery_renews_the_handle_and_is_not_posted() -> None:
    """When heartbeats fail the message comes again: still one delivery, deleted by its newest handle."""

    async def scenario() -> None:
        inbox = Inbox()
        queue = FakeQueue(visibility=1, refuses=lambda call, _handle: call == "hide")
        queue.send("twice")
        async with listening(queue, inbox, options=OPTIONS) as listener:
            await until(lambda: inbox.counts["redelivered"] >= 2)
            assert inbox.bodies == ["twice"]
            listener.settle([inbox.deliveries[0].id])
            await until(lambda: inbox.counts["settled"] == 1)
        assert queue.messages == {}

    asyncio.run(scenario())


def test_a_redelivery_during_the_delete_is_deleted_too() -> None:
    """An old handle deletes nothing; the delete is repeated with the one that came in between."""

    async def scenario() -> None:
        inbox, queue = Inbox(), FakeQueue()
        message_id = queue.send("racing")

        async def comes_again(call: str) -> None:
            if call == "delete" and queue.calls["delete"] == 1:
                queue.messages[message_id].visible_at = 0.0
                await until(lambda: inbox.counts["redelivered"] == 1)

        queue.before = comes_again
        async with listening(queue, inbox, options=OPTIONS) as listener:
            await until(lambda: len(inbox.deliveries) == 1)
            listener.settle([message_id])
            await until(lambda: inbox.counts["settled"] == 1)
        assert queue.calls["delete"] == 2
        assert queue.messages == {}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(
            service_error("AWS.SimpleQueueService.NonExistentQueue", 400), ResourceMissing, id="deleted"
        ),
        pytest.param(service_error("AccessDenied", 403), AccessDenied, id="forbidden"),
        pytest.param(service_error("InternalFailure", 500), SourceUnavailable, id="500"),
        pytest.param(service_error("ThrottlingException", 400), SourceUnavailable, id="throttled"),
        pytest.param(TimeoutError(), SourceUnavailable, id="silent"),
    ],
)
def test_a_failing_queue_is_tried_until_it_returns(error: Exception, kind: type[Exception]) -> None:
    """Failures are reported, translated, and end nothing."""

    async def scenario() -> None:
        inbox = Inbox()
        is_broken = True
        queue = FakeQueue(fails=lambda _call: error if is_broken else None)
        queue.send("late")
        async with listening(queue, inbox, options=OPTIONS) as listener:
            await until(lambda: len(inbox.failures) >= 3)
            is_broken = False
            await until(lambda: inbox.bodies == ["late"])
            listener.settle([inbox.deliveries[0].id])
            await until(lambda: inbox.counts["settled"] == 1)
        assert {type(failure) for failure in inbox.failures} == {kind}
        assert all(failure.__cause__ is error for failure in inbox.failures)

    asyncio.run(scenario())


def test_a_lowered_time_out_of_the_queue_is_found_out() -> None:
    """What was to be hidden for 300 s comes after one: the queue is asked again, and heartbeats hide it."""

    async def scenario() -> None:
        inbox, queue = Inbox(), FakeQueue(visibility=300)
        async with listening(queue, inbox, options=OPTIONS) as listener:
            await until(lambda: queue.calls["receive"] >= 2)
            queue.visibility = 1
            held = queue.send("held")
            await until(lambda: inbox.counts["heartbeats"] >= 1, what="a heartbeat hides it")
            assert queue.calls["attributes"] >= 2
            assert inbox.bodies == ["held"]
            assert queue.messages[held].visible_at > time.monotonic() + 60
            listener.settle([inbox.deliveries[0].id])
            await until(lambda: inbox.counts["settled"] == 1)

    asyncio.run(scenario())


def test_receiving_works_where_looking_at_the_queue_is_forbidden() -> None:
    """Without sqs:GetQueueAttributes each receive says itself how long it hides."""

    async def scenario() -> None:
        inbox = Inbox()
        queue = FakeQueue(
            visibility=0,
            fails=lambda call: service_error("AccessDenied", 403) if call == "attributes" else None,
        )
        queue.send("seen once")
        async with listening(queue, inbox, options=OPTIONS):
            await until(lambda: queue.calls["receive"] >= 5)
        assert inbox.bodies == ["seen once"]
        assert inbox.counts["redelivered"] == 0

    asyncio.run(scenario())


def test_an_error_that_is_no_outside_failure_ends_the_listener() -> None:
    """A bug is not retried for ever: it surfaces."""

    async def scenario() -> None:
        inbox = Inbox()
        queue = FakeQueue(fails=lambda _call: ValueError("a bug"))
        with pytest.raises(ExceptionGroup) as caught:
            async with listening(queue, inbox, options=OPTIONS):
                await until(lambda: queue.calls, what="the first call")
        assert caught.group_contains(ValueError, match="a bug")

    asyncio.run(scenario())
