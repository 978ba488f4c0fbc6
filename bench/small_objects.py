"""What one small object costs a worker in CPU, from its batch to the commit of its checkpoint, by thread.

The task's own code in this process, on the broker of `make up` (or HEADRACE_TEST_KAFKA), with an S3 that
answers at once from another process, so that nothing but the worker is measured; with `--s3-ms` it takes so
long for each GET, one after the other, as LocalStack does: then threads wait for each other at every object.

    python -m bench.small_objects [--s3-ms 2] [--batches 20]
"""

import argparse
import multiprocessing
import pickle
import socket
import threading
import time
import uuid
from collections import defaultdict
from typing import Any, Final, cast

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.gets import ETAG, HEAD
from bench.lines import lines
from headrace.kafka.fencing import memberless_metadata
from headrace.model.objects import ObjectId, Route, S3Object
from headrace.model.slot_protocol import Batch, Split
from headrace.options import Settings
from spark.source.batch import BatchRun
from spark.source.source_work import new_slot_producer, task_settings
from spark.task.slot_session import DriverConnection
from tests.support import kafka
from tests.support.configuration import settings_for

OBJECTS_A_BATCH: Final = 200
BODY: Final = lines(0, 10)
_ANSWER: Final = f"{HEAD}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


def serve(listening: socket.socket, seconds: float) -> None:
    """Answer every GET with the same ten lines, for good; `seconds` after the GET before it."""
    one_at_a_time = threading.Lock()
    free_at = 0.0

    def wait() -> None:
        nonlocal free_at
        with one_at_a_time:
            now = time.monotonic()
            free_at = max(now, free_at) + seconds
            mine = free_at
        time.sleep(mine - now)

    def answer(connection: socket.socket) -> None:
        asked = b""
        while received := connection.recv(65_536):
            asked += received
            while b"\r\n\r\n" in asked:
                _, _, asked = asked.partition(b"\r\n\r\n")
                if seconds:
                    wait()
                connection.sendall(_ANSWER)

    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


class Link:
    """In the place of the driver: pickles what is said to it, as the socket does."""

    def is_void(self) -> bool:
        """Never."""
        return False

    is_ending = is_void

    def beat(self) -> None:
        """Taken."""

    def send(self, message: object) -> None:
        """Pickled, and forgotten."""
        pickle.dumps(message)


def batch(number: int, topic: str) -> Batch:
    """So many small objects."""
    return Batch(
        number=number,
        slot=0,
        group=memberless_metadata(topic),
        splits=tuple(
            Split(
                object=S3Object(
                    id=ObjectId("bucket", f"in/{number}-{each:06}.jsonl", ETAG),
                    size=len(BODY),
                    last_modified_ms=1,
                ),
                route=Route(topic=topic),
            )
            for each in range(OBJECTS_A_BATCH)
        ),
        max_seconds=600,
    )


def by_thread() -> "defaultdict[str, float]":
    """CPU seconds of each kind of thread that is started from now on, once it has ended."""
    found: defaultdict[str, float] = defaultdict(float)
    run = threading.Thread.run

    def timed(self: threading.Thread) -> None:
        try:
            run(self)
        finally:
            found[self.name.rstrip("0123456789-_")] += time.thread_time()

    threading.Thread.run = timed  # type: ignore[method-assign]  # the only way into threads of others
    return found


def measure(settings: Settings, topic: str, batches: int) -> None:
    """Run the batches, and print microseconds an object."""
    tasks = task_settings(settings, slots=1)
    producer = new_slot_producer(tasks, 0, lambda: False)

    def run(number: int) -> None:
        work: Any = BatchRun(
            batch(number, topic), producer=producer, link=cast("DriverConnection", Link()), settings=tasks
        )
        work.run()

    run(0)
    threads = by_thread()
    process, main = time.process_time(), time.thread_time()
    for number in range(1, batches + 1):
        run(number)
    objects = OBJECTS_A_BATCH * batches
    whole = (time.process_time() - process) / objects * 1e6
    threads["main"] = time.thread_time() - main
    print(f"{whole:.0f} µs an object")
    for name, seconds in sorted(threads.items()):
        print(f"{seconds / objects * 1e6:6.0f} µs {name}")


def main() -> None:
    """Measure on a topic of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--s3-ms", type=float, default=0.0)
    parser.add_argument("--batches", type=int, default=20)
    asked = parser.parse_args()
    listening = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(
        target=serve, args=(listening, asked.s3_ms / 1000), daemon=True
    )
    server.start()
    topic = f"small-{uuid.uuid4().hex[:8]}"
    endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
    options = {"name": topic, "topic": topic, "bootstrap.servers": kafka.address(), "input.format": "jsonl"}
    settings = settings_for(bucket="bucket", queue_url=None, s3=endpoint, options=options)
    admin = AdminClient({"bootstrap.servers": kafka.address()})
    wanted = [NewTopic(topic, 4, 1), NewTopic(settings.kafka.ledger_topic, 1, 1)]
    for made in admin.create_topics(wanted).values():
        made.result()
    try:
        measure(settings, topic, asked.batches)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
