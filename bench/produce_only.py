"""The ceiling: the same records from memory through plain `produce()`, in one process or two, nothing else.

Prints the records sent and the seconds from the first produce to the last acknowledgement.
"""

import multiprocessing
import sys
import time

from confluent_kafka import Producer

from bench.lines import lines

_AT_ONCE = 5_000


def send(bootstrap: str, topic: str, records: int, barrier: object) -> None:
    """Send `records` records from memory and wait for their acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "batch.num.messages": 50_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
        }
    )
    producer.list_topics(topic, 30)
    values = lines(0, _AT_ONCE).splitlines()
    barrier.wait()  # type: ignore[attr-defined]  # a multiprocessing barrier, whose class is private
    for _ in range(records // _AT_ONCE):
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, b"object-key")
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    producer.flush(120)


def measure(bootstrap: str, topic: str, records: int, processes: int) -> float:
    """Seconds for `records` records in all, from so many processes."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes + 1)
    workers = [
        context.Process(target=send, args=(bootstrap, topic, records // processes, barrier))
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    began = time.monotonic()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("A process of the produce-only measurement failed.")
    return time.monotonic() - began


if __name__ == "__main__":
    print(sys.argv[3], measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
