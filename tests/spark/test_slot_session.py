"""What a task says to the driver while it waits for it."""

import queue
import socket

from headrace.model.sink_protocol import GroupWanted, LeaderGroup
from headrace.model.slot_protocol import Working
from headrace.process.threads import start_thread
from spark.socket_protocol import AuthenticatedSocket
from spark.task.slot_session import DriverConnection


def test_a_task_that_waits_for_the_leaders_group_gives_signs_of_life() -> None:
    """The leader asks brokers before it answers, for as long as they do not: nobody hangs."""
    ours, theirs = socket.socketpair()
    link, driver = DriverConnection(AuthenticatedSocket(ours), beat_seconds=0.01), AuthenticatedSocket(theirs)
    found: queue.SimpleQueue[LeaderGroup] = queue.SimpleQueue()
    start_thread(lambda: found.put(link.leader_group(7)), name="task")

    assert driver.receive() == GroupWanted(batch=7)
    assert [driver.receive() for _ in range(3)] == [Working()] * 3
    driver.send(LeaderGroup(group=b"group", gone=()))

    assert found.get(timeout=60).group == b"group"
    driver.close()
    link.close()
